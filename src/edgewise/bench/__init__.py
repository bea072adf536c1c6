"""Measures the engine from outside: `edgewise bench NAME`."""
