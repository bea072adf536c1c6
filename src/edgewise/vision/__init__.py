"""Judges for pictures: what a file holds, what a question asks, how sure an answer is."""
