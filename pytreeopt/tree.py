"""Tree utilities: upstream's own."""

from optax.tree import *  # noqa: F403
