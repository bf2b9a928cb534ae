"""A program, run by `test_upstream_versions`: this package beside an Optax that lacks names or has moved on."""

import functools
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax._src import linesearch, transform
from optax.experimental import aggregating
from optax.schedules import _inject

LACKING = (
    (transform, "ScaleByRmsWithCountState"),
    (linesearch, "FLAG_NO_STEPSIZE_FOUND"),
    (aggregating, "PerElementMeanAndVarianceEMAState"),
    (_inject, "WrappedScheduleState"),
    (optax, "TraceState"),
    (optax, "smooth_labels"),
)


@contextmanager
def without(owner: Any, name: str) -> Iterator[None]:
    kept = vars(owner).pop(name)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def import_anew() -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == "pytreeopt"]:
        del sys.modules[module]
    importlib.import_module("pytreeopt.contrib")


def refuses_an_upstream_that_lacks_a_name() -> None:
    for owner, name in LACKING:
        with without(owner, name):
            try:
                import_anew()
            except ImportError as error:
                message = str(error)
                assert name in message, message
                assert "optax >=0.2.8,<0.3" in message, message
                assert "install optax==0.2.8" in message, message
                assert "\n" not in message, message
            else:
                raise AssertionError(f"imported without {owner.__name__}.{name}")


def move_on() -> None:
    """What a later release does: parameters added or renamed, new names, other arithmetic in a helper."""
    adabelief, dpsgd = optax.adabelief, optax.contrib.dpsgd

    @functools.wraps(adabelief)
    def wider(
        learning_rate, b1=0.9, b2=0.999, eps=1e-16, eps_root=1e-16, weight_decay=0.0, mask=None, *, nesterov=False
    ):
        return adabelief(learning_rate, b1, b2, eps, eps_root, nesterov=nesterov)

    def renamed(learning_rate, l2_norm_clip, noise_multiplier, key, momentum=None, nesterov=False):
        return dpsgd(learning_rate, l2_norm_clip, noise_multiplier, key, momentum, nesterov)

    def vdot(a, b):
        return sum(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.sum(jnp.conj(x) * y), a, b)))

    del wider.__wrapped__
    optax.adabelief, optax.contrib.dpsgd = wider, renamed
    optax.tree.vdot = optax.tree_utils.tree_vdot = vdot
    optax.brand_new = optax.contrib.brand_new = optax.adam


def keeps_its_numbers() -> None:
    parity = {name: importlib.import_module(f"parity.{name}") for name in ("oracles", "rows")}
    for name, oracle in (("adabelief", "eager"), ("dpsgd", "argument"), ("momo", "eager")):
        found = parity["oracles"].compare(parity["rows"].ROWS[name], oracle, "vector", "float32", 2)
        assert found.ulp == 0, (name, oracle, found)


if __name__ == "__main__":
    refuses_an_upstream_that_lacks_a_name()
    move_on()
    import_anew()
    keeps_its_numbers()
