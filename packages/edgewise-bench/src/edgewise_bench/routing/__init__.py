"""What a routing score is worth: on our own traces, and on outcomes that others published."""
