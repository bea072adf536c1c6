"""Stories: one file per task, read from top to bottom."""
