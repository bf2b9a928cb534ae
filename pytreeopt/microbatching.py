"""Evaluation in microbatches: upstream's own."""

from optax.microbatching import *  # noqa: F403
