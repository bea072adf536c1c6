"""Runtimes beside llama.cpp, one file each. How one is added: docs/guide/runtimes.md."""

__version__ = "0.7.0"
