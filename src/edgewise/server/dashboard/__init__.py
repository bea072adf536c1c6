"""The dashboard: its page, and what it shows."""
