"""Questions with answers that a program can check: our own, and public ones by reference."""
