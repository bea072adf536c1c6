"""Stories: one file per job a user sees, read top to bottom."""
