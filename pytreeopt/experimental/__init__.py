"""Experimental transformations; upstream's namespace `optax.experimental`."""

from pytreeopt.experimental import aggregating as aggregating
