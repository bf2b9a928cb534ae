"""What a parity row is: one lambda that builds an optimizer from either library, and its declared traits."""

import dataclasses
from collections.abc import Callable
from typing import Any

NOT_FLOAT16 = ("float32", "bfloat16", "complex64", "float64")
NOT_ONE_NUMBER = ("nested", "vector", "matrix")  # of one number the compiler may take the root of its square for |x|


@dataclasses.dataclass(frozen=True)
class Loose:
    """A tolerance other than 0, with the operation that reorders or rounds.

    Differences are relative to the greatest element of a leaf. In a dtype whose own epsilon is coarser than `rtol`,
    a few of its units are allowed instead. A mapping gives each dtype its own, and the others none.
    """

    rtol: float | dict[str, float]
    reason: str
    dtypes: tuple[str, ...] | None = None

    def allowed(self, dtype: str) -> float:
        """The greatest relative difference in `dtype`; 0 where the tolerance does not apply."""
        if self.dtypes is not None and dtype not in self.dtypes:
            return 0.0
        if isinstance(self.rtol, dict):
            return self.rtol.get(dtype, 0.0)
        return max(self.rtol, {"float16": 8 * 2.0**-10, "bfloat16": 8 * 2.0**-7}.get(dtype, 0.0))


@dataclasses.dataclass(frozen=True)
class Row:
    """A gradient transformation, compared step by step.

    Args:
        build: builds it from a namespace, `optax` or `pytreeopt`.
        extra: names of the extra arguments that `update` is given, see `problems.EXTRAS`.
        complex: whether upstream takes complex parameters.
        default: the row of its class that is run in every dtype and through every law.
        untraced: set where upstream cannot trace a dynamic field; oracle (c) then compares with (b), so closely.
        jit: set where the compiler alone makes (b) and (c) differ although (a) is exact.
        loop: set where (a) differs too, since eager code compiles loops and branches.
        casts: our state keeps a dtype that upstream changes; compare after a cast.
        no_gradient: hyperparameter path -> why its hypergradient is zero or undefined.
        prepare: changes a problem's params, gradients or both to what the transformation takes (a batch axis, say).
        dtypes: the only dtypes that upstream can run, or None for all.
        trees: the only trees of `problems.SHAPES` that it fits (a mask that is a tree, say), or None for all.
        objective: name of a function in `problems.OBJECTIVES`: gradients, `value`, `grad` and `value_fn` are its own.
        forward_only: why JAX refuses reverse mode; hypergradients are then taken forward.
        float32_inside: why numbers pass through float32 even under x64, which coarsens finite differences.
        grows: the structure of the state changes at the first update; `init_filled` gives the later one.
        costly: eager updates compile a loop or branch at every step, so few steps must do outside of `make parity`.
        why: reason for `casts`, `dtypes` or `complex=False`.
    """

    build: Callable[[Any], Any]
    extra: tuple[str, ...] = ()
    complex: bool = True
    default: bool = False
    untraced: Loose | None = None
    jit: Loose | None = None
    loop: Loose | None = None
    casts: bool = False
    no_gradient: dict[str, str] = dataclasses.field(default_factory=dict)
    prepare: Callable[[Any, Any], tuple[Any, Any]] | None = None
    dtypes: tuple[str, ...] | None = None
    trees: tuple[str, ...] | None = None
    objective: str = ""
    forward_only: str = ""
    float32_inside: str = ""
    grows: bool = False
    costly: bool = False
    why: str = ""

    def runs_in(self, dtype: str) -> bool:
        return (self.dtypes is None or dtype in self.dtypes) and (self.complex or dtype != "complex64")

    def runs_on(self, tree: str) -> bool:
        return self.trees is None or tree in self.trees

    @property
    def tree(self) -> str:
        """The tree for a single comparison."""
        return self.trees[0] if self.trees else "nested"


@dataclasses.dataclass(frozen=True)
class ScheduleRow:
    """A schedule, compared value by value.

    Args:
        build: builds it from a namespace.
        default: the row of its class that goes through every law.
        end: a count beyond the last change of the schedule.
        untraced: set where upstream cannot trace a number; the traced values then compare with the compiled ones.
        no_gradient: path of a number -> why its derivative is zero or undefined.
    """

    build: Callable[[Any], Any]
    default: bool = False
    end: int = 15
    untraced: Loose | None = None
    no_gradient: dict[str, str] = dataclasses.field(default_factory=dict)
