"""Doers over the network. Requests leave through one door: `door.py`."""
