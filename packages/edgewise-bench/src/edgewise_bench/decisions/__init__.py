"""Measures decisions: suites of typed questions, and what a model's answers are worth."""
