"""Searching folders by meaning: what is read, how it is cut, where vectors are kept."""
