"""A scripted cloud on this machine: real HTTP, four providers' protocols, every kind of failure."""
