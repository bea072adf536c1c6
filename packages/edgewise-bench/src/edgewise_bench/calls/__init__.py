"""Function calls: cases, the systems that answer them, and how well they do."""
