"""Second-order derivatives: upstream's own."""

from optax.second_order import *  # noqa: F403
