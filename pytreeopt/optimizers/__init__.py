"""Optimizers, one algorithm a file; their names are those of `pytreeopt` itself."""
