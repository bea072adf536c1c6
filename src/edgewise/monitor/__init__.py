"""What watches a running engine: shadow audit, drift, pacing, and why a request left."""
