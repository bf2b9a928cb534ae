"""Loss functions: upstream's own."""

from optax.losses import *  # noqa: F403
