"""Values that the words of a request say: numbers, times, names, money, switches."""
