"""Function calls, pure: tools, prompt, grammar, parse, normalize, check. No model and no I/O."""
