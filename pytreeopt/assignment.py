"""Assignment problems: upstream's own."""

from optax.assignment import *  # noqa: F403
