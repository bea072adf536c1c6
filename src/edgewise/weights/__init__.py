"""Weights that ship: adapters, merged into their base models on this machine."""
