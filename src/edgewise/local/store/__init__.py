"""The store of weights: the catalogue, how models are fetched, verified and converted."""
