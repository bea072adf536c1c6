"""Measures edgewise from outside: `edgewise bench NAME`."""

__version__ = "0.4.0"
