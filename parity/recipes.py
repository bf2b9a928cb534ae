"""Optimizers, parameters and gradients as recipes: they build either library and print as a parity row."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from parity.problems import away_from_zero
from parity.row import Row


@dataclasses.dataclass(frozen=True)
class Name:
    """A public name of either library."""

    path: str

    def __repr__(self) -> str:
        return f"o.{self.path}"

    def build(self, o: Any) -> Any:
        return functools.reduce(getattr, self.path.split("."), o)


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a name, or of what another call returns."""

    function: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        given = [*map(source, self.args), *(f"{name}={source(value)}" for name, value in self.kwargs.items())]
        return f"{self.function!r}({', '.join(given)})"

    def build(self, o: Any) -> Any:
        kwargs = {name: build(value, o) for name, value in self.kwargs.items()}
        return self.function.build(o)(*(build(value, o) for value in self.args), **kwargs)


def call(path: str, *args: Any, **kwargs: Any) -> Call:
    return Call(Name(path), args, kwargs)


def build(value: Any, o: Any) -> Any:
    """`value` with every recipe in it built from the namespace `o`."""
    if isinstance(value, Name | Call):
        return value.build(o)
    if isinstance(value, dict):
        return {name: build(item, o) for name, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(build(item, o) for item in value)
    return value


def source(value: Any) -> str:
    """`value` as it is written in a program."""
    if inspect.isfunction(value):
        return value.__name__
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {source(item)}" for name, item in value.items()) + "}"
    if type(value) is list:
        return "[" + ", ".join(map(source, value)) + "]"
    if type(value) is tuple:
        return "(" + ", ".join(map(source, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


class Pair(NamedTuple):
    """A node of a drawn tree."""

    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An array to be drawn."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def __repr__(self) -> str:
        return f"Leaf({self.shape}, {self.dtype!r})"


def ordinary(random: np.random.Generator, leaf: Leaf) -> np.ndarray:
    return away_from_zero(random, leaf.shape)


def scattered(value: Callable[[Leaf], float]) -> Callable[[np.random.Generator, Leaf], np.ndarray]:
    """Ordinary numbers, a third of which are replaced."""

    def draw(random: np.random.Generator, leaf: Leaf) -> np.ndarray:
        x = ordinary(random, leaf)
        return np.where(random.random(leaf.shape) < 1 / 3, value(leaf), x)

    return draw


def real(leaf: Leaf) -> Any:
    return jnp.finfo(leaf.dtype)


KINDS: dict[str, Callable[[np.random.Generator, Leaf], np.ndarray]] = {
    "ordinary": ordinary,
    "zeros": lambda random, leaf: np.zeros(leaf.shape),
    "negative zeros": lambda random, leaf: np.full(leaf.shape, -0.0),
    "some zeros": scattered(lambda leaf: 0.0),
    "denormal": lambda random, leaf: ordinary(random, leaf) * float(real(leaf).smallest_normal) * 0.1,
    "small": lambda random, leaf: ordinary(random, leaf) * 1e-4,
    "large": lambda random, leaf: ordinary(random, leaf) * 1e3,
    "huge": lambda random, leaf: np.sign(ordinary(random, leaf)) * float(real(leaf).max) * 0.9,
    "some NaN": scattered(lambda leaf: np.nan),
    "some inf": scattered(lambda leaf: np.inf),
    "some -inf": scattered(lambda leaf: -np.inf),
}


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Parameters and gradients as a row's `prepare`: what it is given is replaced.

    Args:
        tree: the parameters' tree, of `Leaf`.
        params: their kind, a key of `KINDS`.
        gradients: kinds of the gradients, one a step.
        seed: seed of the numbers.
        paired: whether the parameters are `LookaheadParams`.
    """

    tree: Any
    params: str = "ordinary"
    gradients: tuple[str, ...] = ("ordinary",)
    seed: int = 0
    paired: bool = False

    def __call__(self, params: Any, gradients: list[Any]) -> tuple[Any, list[Any]]:
        random = np.random.default_rng(self.seed)
        start = self.draw(random, self.params)
        gradients = [self.draw(random, kind) for kind in self.gradients]
        if self.paired:
            start = optax.LookaheadParams(start, jax.tree.map(lambda x: 0.5 * x, start))
        return start, gradients

    def draw(self, random: np.random.Generator, kind: str) -> Any:
        def array(leaf: Leaf) -> jax.Array:
            # Each leaf is of this kind or ordinary, so that kinds meet in one gradient.
            draw = KINDS[kind if random.random() < 0.7 else "ordinary"]
            with np.errstate(over="ignore", invalid="ignore"):
                x = draw(random, leaf)
                if leaf.dtype == "complex64":
                    x = x + 1j * draw(random, leaf)
                return jnp.asarray(np.asarray(x).astype(jnp.dtype(leaf.dtype)))

        return jax.tree.map(array, self.tree)


@dataclasses.dataclass(frozen=True)
class Case:
    """An optimizer and a problem; prints as a row."""

    recipe: Call
    problem: Drawn

    def row(self) -> Row:
        return Row(functools.partial(build, self.recipe), extra=self.extra, prepare=self.problem)

    @property
    def extra(self) -> tuple[str, ...]:
        return ("value",) if any(name in repr(self.recipe) for name in TAKES_VALUE) else ()

    def __repr__(self) -> str:
        extra = f", extra={self.extra}" if self.extra else ""
        return f"Row(lambda o: {self.recipe!r}{extra}, prepare={self.problem!r}, dtypes=('float32',))"


TAKES_VALUE = ("polyak", "momo", "reduce_on_plateau", "high")
