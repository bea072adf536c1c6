"""Standing campaigns: kills, hostile clients, memory per request, and a soak."""
