"""Sound: read it, find speech, cut it at silence, and judge what was transcribed."""
