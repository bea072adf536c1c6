"""The store of weights: the catalogue; fetching, verifying and converting models."""
