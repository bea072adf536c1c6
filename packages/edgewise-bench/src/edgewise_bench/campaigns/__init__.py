"""Standing campaigns: kills, money, hostile clients, memory per request, and a soak."""
