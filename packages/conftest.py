"""The same as for edgewise's own tests: a home for each, no keys, no network but loopback."""

from tests.conftest import (
    beckett,
    default_embedder,
    default_function_model,
    default_model,
    default_transcriber,
    homes,
    only_loopback,
    own_home,
    what_is_left_open,
)

__all__ = [
    "beckett",
    "default_embedder",
    "default_function_model",
    "default_model",
    "default_transcriber",
    "homes",
    "only_loopback",
    "own_home",
    "what_is_left_open",
]
