"""Projections onto convex sets: upstream's own."""

from optax.projections import *  # noqa: F403
