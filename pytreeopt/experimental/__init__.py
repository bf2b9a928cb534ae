"""Experimental transformations; upstream's namespace `optax.experimental`."""
