"""Several processes and machines: replicas on Ray Serve, and one ledger in PostgreSQL."""

__version__ = "0.7.0"
