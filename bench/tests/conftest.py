"""The same as for edgewise's own tests: a home for each, no keys, no network but loopback."""

from tests.conftest import (
    beckett,
    default_embedder,
    default_function_model,
    default_model,
    default_transcriber,
    only_loopback,
    own_home,
)

__all__ = [
    "beckett",
    "default_embedder",
    "default_function_model",
    "default_model",
    "default_transcriber",
    "only_loopback",
    "own_home",
]
