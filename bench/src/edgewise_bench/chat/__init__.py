"""Chat: the overhead, the server, the published traces, and the shipped calibration."""
