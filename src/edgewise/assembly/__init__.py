"""Builds an engine's parts from its settings, and the parts that each task needs."""
