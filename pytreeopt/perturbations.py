"""Differentiable perturbed optimizers: upstream's own."""

from optax.perturbations import *  # noqa: F403
