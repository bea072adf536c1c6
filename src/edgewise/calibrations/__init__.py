"""Calibration files shipped for the embedded default models: data, no code."""
