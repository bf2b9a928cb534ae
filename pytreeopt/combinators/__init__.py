"""Transformations made of transformations; their names are those of `pytreeopt` itself."""
