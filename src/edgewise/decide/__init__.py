"""Judges: pure functions and small machines. No I/O, no clock, no model."""
