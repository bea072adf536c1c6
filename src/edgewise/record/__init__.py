"""The record: every request, attempt, decision and micro-dollar, in one SQLite file."""
