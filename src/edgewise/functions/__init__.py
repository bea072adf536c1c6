"""Judges for function calls: pure code, no model and no I/O."""
