"""Past one process: what a request, a shared ledger and replicas cost, and what they survive."""
