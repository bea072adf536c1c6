"""The kinds of questions that `edgewise calibrate --builtin` asks a model."""
