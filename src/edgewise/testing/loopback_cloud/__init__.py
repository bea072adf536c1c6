"""A scripted cloud on this machine: real HTTP, five providers' protocols, every kind of failure."""
