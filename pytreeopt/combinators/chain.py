"""Transformations one after another."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, final

from pytreeopt.base import AbstractChain, GradientTransformation, coerce
from pytreeopt.combinators.named import named_children
from pytreeopt.errors import MissingStateError, WrongStateError
from pytreeopt.fields import Named


@final
class Chain(AbstractChain):
    """Applies transformations in order, each to the updates of the one before. The state is the tuple of theirs.

    Args:
        transforms: the members, at least one; foreign pairs are accepted. Extra arguments reach all of them.
    """

    transforms: tuple[GradientTransformation, ...]

    @property
    def chain(self):
        return self.transforms


def chain(*args: Any) -> Chain:
    """`chain(a, b, ...)` applies `a`, then `b`, ...; nested chains stay nested, as their states do."""
    if not args:
        raise ValueError("chain needs at least one transformation, got none; identity() changes nothing")
    return Chain(tuple(map(coerce, args)))


@final
class NamedChain(GradientTransformation):
    """A chain whose members, and their states, have names. The state is an `OrderedDict`.

    Args:
        transforms: mapping from name to member, applied in its order.
    """

    transforms: Mapping[str, GradientTransformation]

    def __post_init__(self):
        super().__post_init__()
        vars(self)["transforms"] = named_children(self.transforms)

    def init(self, params):
        return OrderedDict((name, coerce(tx).init(params)) for name, tx in self.transforms.items())

    def update(self, updates, state, params=None, **extra_args):
        if not isinstance(state, Mapping):
            raise WrongStateError(f"needs a mapping of states by name, got {type(state).__name__}")
        new_state = OrderedDict()
        for name, tx in self.transforms.items():
            if name not in state:
                raise MissingStateError(f"finds no state for {name!r} among {list(state)}; call init first")
            updates, new_state[name] = coerce(tx).update(updates, state[name], params, **extra_args)
        return updates, new_state


def named_chain(*args: tuple[str, Any]) -> NamedChain:
    """`named_chain(("clip", a), ("adam", b), ...)`: as `chain`, with a name for each member and its state."""
    names = [name for name, _ in args]
    if len(set(names)) != len(names):
        raise ValueError(f"named_chain needs distinct names, got {names}")
    return NamedChain(Named(names, [coerce(tx) for _, tx in args]))
