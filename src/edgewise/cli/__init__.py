"""Thin commands over the engine, one file per command or group."""
