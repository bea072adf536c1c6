"""Runtimes beside llama.cpp, one file each. How one is added: docs/engines.md."""
