"""An engine's parts from its settings, and the parts each task needs."""
