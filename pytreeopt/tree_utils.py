"""Tree utilities by their longer names: upstream's own."""

from optax.tree_utils import *  # noqa: F403
