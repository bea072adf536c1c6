"""Judges for pictures: what a file holds, what a question wants, how sure an answer is."""
