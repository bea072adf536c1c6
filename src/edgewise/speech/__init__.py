"""Sound: read it, find who speaks, cut it at silence, and judge what was heard."""
