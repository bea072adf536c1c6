"""Chat: overhead, server, a process of its own, published traces, shipped calibration."""
