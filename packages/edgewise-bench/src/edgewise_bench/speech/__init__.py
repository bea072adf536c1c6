"""Speech: recordings, what the device hears in them, its confidence, and deferral."""
