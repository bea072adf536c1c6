"""Holds the distribution edgewise-bench; a package so that its tests are `bench.tests`."""
