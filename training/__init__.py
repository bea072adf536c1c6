"""Makes the function caller: data generator, trainer and evaluation. Not part of the package."""
