"""Doers on the device: runtimes behind protocols, and the store that gets their weights."""
