"""Measures edgewise from outside: `edgewise bench NAME`."""

__version__ = "0.7.0"
