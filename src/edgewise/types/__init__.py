"""Values: frozen dataclasses that import nothing of ours and do nothing."""
