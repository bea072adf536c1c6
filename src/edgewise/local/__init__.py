"""Doers on the device: runtimes behind one protocol, and the store that gets their weights."""
