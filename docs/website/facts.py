"""What the pages say about the classes, read from the code and from the parity rows."""

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import pytreeopt
from parity.row import Row
from parity.rows import ROWS
from pytreeopt.base import AbstractChain, AbstractHyperparameters

FLOORS = {
    "base": "Base classes",
    "fields": "Fields",
    "errors": "Errors",
    "leafwise": "Per-leaf work",
    "_hyperparams": "Hyperparameters by name",
    "_config": "Plain data",
    "_registry": "What plain data may name",
    "bound": "Optimizer and state in one",
    "schedules": "Schedules",
    "combinators": "Combinators and wrappers",
    "transforms": "Transformations",
    "linesearch": "Line searches",
    "optimizers": "Optimizers",
    "contrib": "Contributed",
    "experimental": "Experimental",
    "interop": "To other libraries",
}
NAMESPACES = (
    "pytreeopt",
    "pytreeopt.contrib",
    "pytreeopt.experimental.aggregating",
    "pytreeopt.schedules",
    "pytreeopt.transforms",
)


class Reference(NamedTuple):
    """A paper that a docstring refers to."""

    label: str  # authors and year
    url: str


class Optimizer(NamedTuple):
    """A class that trains by itself, with its default parity row."""

    name: str
    cls: type
    row: Row

    @property
    def path(self) -> str:
        """The public name, as typed after `import pytreeopt as optax`."""
        return f"contrib.{self.name}" if self.cls.__module__.startswith("pytreeopt.contrib") else self.name

    @property
    def paragraphs(self) -> list[str]:
        """The docstring before its sections."""
        text = inspect.getdoc(self.cls) or ""
        return re.split(r"\n{2,}", re.split(r"\n(?:Args|References|Raises):\n", text)[0].strip())

    @property
    def summary(self) -> str:
        return one_line(self.paragraphs[0])

    @property
    def advice(self) -> str:
        """When to choose it: the first paragraph after the summary that is no formula."""
        return next((one_line(text) for text in self.paragraphs[1:] if not text.startswith("$$")), "")

    @property
    def references(self) -> list[Reference]:
        return references(self.cls)

    @property
    def chain(self) -> list[str]:
        """Names of the classes that its default row is a chain of; empty if it is none."""
        built = self.row.build(pytreeopt)
        return [type(member).__name__ for member in built.chain] if isinstance(built, AbstractChain) else []

    @property
    def bytes_per_parameter(self) -> float:
        """Size of the state for one float32 matrix of 1024 x 1024."""
        params = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
        state = jax.eval_shape(self.with_defaults().init, params)
        arrays = [leaf for leaf in jax.tree.leaves(state) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
        return sum(leaf.size * leaf.dtype.itemsize for leaf in arrays) / params.size

    def with_defaults(self) -> Any:
        """The row's optimizer, but for every field that has one, its default."""
        built = self.row.build(pytreeopt)
        defaults = {f.name: f.default for f in dataclasses.fields(built) if f.default is not dataclasses.MISSING}
        return dataclasses.replace(built, **defaults)

    @property
    def extra(self) -> tuple[str, ...]:
        """Extra arguments that `update` is given."""
        return self.row.extra + (("value", "grad", "value_fn") if self.row.objective else ())

    def fields(self, *, static: bool) -> list[str]:
        return [name for name, is_static in fields(self.cls) if is_static == static]

    @property
    def parity(self) -> str:
        """What its rows promise: equality, or how many have a tolerance, and the greatest relative one."""
        rows = [row for name, row in ROWS.items() if name.partition(",")[0] == self.name]
        loose = [bound.rtol for row in rows for bound in (row.jit, row.untraced) if bound]
        return f"{len(loose)} of {len(rows)} rows within {max(loose):g}" if loose else "to the bit"


def one_line(text: str) -> str:
    return " ".join(text.split())


def fields(cls: type) -> Iterator[tuple[str, bool]]:
    """Names of the hyperparameters, and whether each is static."""
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        yield field.name, not field.metadata.get("pytree_node", True)


def given(instance: Any) -> dict[str, Any]:
    """The hyperparameters that differ from their defaults."""
    values = {field.name: (getattr(instance, field.name), field.default) for field in dataclasses.fields(instance)}
    return {name: value for name, (value, default) in values.items() if value != default}


def references(cls: type) -> list[Reference]:
    """The entries of the docstring's section: `Authors, title, year, URL` or `Authors year, URL`."""
    section = (inspect.getdoc(cls) or "").partition("References:\n")[2].partition("\n\n")[0]
    found = re.findall(r"(.*?)(https?://\S+)", one_line(section))
    return [Reference(_label(text), url.rstrip(".")) for text, url in found]


def _label(text: str) -> str:
    authors = re.split(r",| (?=\d{4})", text.strip())[0]
    year = re.findall(r"\b(?:19|20)\d\d\b", text)
    return " ".join([authors, *year[-1:]])


@functools.cache
def optimizers() -> tuple[Optimizer, ...]:
    """Every class that trains by itself: with a learning rate, or a chain, and around no other optimizer."""
    found = []
    for cls in classes():
        floor = cls.__module__.split(".")[1]
        names = [name for name, _ in fields(cls)]
        if floor not in ("optimizers", "contrib") or cls.__name__.startswith(("ScaleBy", "Abstract")):
            continue
        if issubclass(cls, AbstractChain) or ("learning_rate" in names and "base_optimizer" not in names):
            name = lower_case_names()[cls]
            found.append(Optimizer(name, cls, ROWS[name]))
    return tuple(sorted(found, key=lambda optimizer: (optimizer.path.startswith("contrib"), optimizer.name)))


@functools.cache
def classes() -> tuple[type, ...]:
    """Every public class of hyperparameters, in the order of modules and lines."""
    for namespace in NAMESPACES:
        importlib.import_module(namespace)
    found: set[type] = set()
    stack: list[type] = [AbstractHyperparameters]
    while stack:
        cls = stack.pop()
        if cls not in found and cls.__module__.startswith("pytreeopt."):
            found.add(cls)
            stack += cls.__subclasses__()
    public = [cls for cls in found if not cls.__name__.startswith("_") and cls.__qualname__ == cls.__name__]
    return tuple(sorted(public, key=_place))


def _place(thing: Any) -> tuple[str, int]:
    return thing.__module__, inspect.getsourcelines(thing)[1]


@functools.cache
def lower_case_names() -> Mapping[Any, str]:
    """The name under which each class is called: `adam` for `Adam`."""
    names: dict[Any, str] = {}
    for namespace in NAMESPACES:
        for name, thing in vars(importlib.import_module(namespace)).items():
            if name.islower() and inspect.isclass(thing):
                names.setdefault(thing, name)
    return names


_KNOWN = (AbstractHyperparameters, tuple)  # classes of hyperparameters, and states


@functools.cache
def functions() -> tuple[Any, ...]:
    """Every public function of ours that a package exports, and what else it has."""
    found = {}
    for namespace in NAMESPACES:
        if not hasattr(importlib.import_module(namespace), "__path__"):
            continue  # a module exports its classes; its functions are helpers
        for name, thing in vars(importlib.import_module(namespace)).items():
            if name.startswith("_") or not (getattr(thing, "__module__", None) or "").startswith("pytreeopt."):
                continue
            if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, _KNOWN)):
                found[thing] = None
    return tuple(sorted(found, key=_place))


def title(floor: str) -> str:
    return FLOORS.get(floor, floor.strip("_").capitalize())


def floors() -> dict[str, list[Any]]:
    """All that is public, by floor."""
    grouped: dict[str, list[Any]] = {floor: [] for floor in FLOORS}
    for thing in sorted([*classes(), *functions()], key=_place):
        grouped.setdefault(thing.__module__.split(".")[1], []).append(thing)
    return {floor: things for floor, things in grouped.items() if things}
