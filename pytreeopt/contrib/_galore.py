"""GaLore: gradients projected to a low rank, so that the optimizer's state is small."""

from typing import Any, final

import jax
import jax.numpy as jnp
import optax

from pytreeopt.base import AbstractChain, GradientTransformation, Numeric, ScalarOrSchedule, coerce
from pytreeopt.contrib._matrix_view import MatrixView, matrix_view
from pytreeopt.errors import StructureError, require_state
from pytreeopt.fields import resolve_tree, static, static_tree
from pytreeopt.numerics import require_inexact
from pytreeopt.optimizers.adam import ScaleByAdam
from pytreeopt.states import GaLoreDimensionNumbers, GaLoreState, is_params_placeholder
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights


@final
class ScaleByGaLore(GradientTransformation):
    r"""Runs another transformation on gradients projected to their leading singular vectors, and projects back.

    $$ u = \alpha\, P\, \mathcal T(P^\top g) \;\text{ for } g \text{ with } m \ge n, \quad
    \alpha\, \mathcal T(g P)\, P^\top \;\text{ else,} $$

    with $P$ the first $r$ left (or right) singular vectors of the gradient at every $k$-th step. Singular vectors
    have no sign of their own, so another backend may give other numbers.

    Args:
        rank: $r$, a positive integer; at most the smaller side of a matrix is used.
        update_proj_gap: $k$, steps between new projections, a positive integer.
        scale: $\alpha$, factor of the updates.
        base_optimizer: $\mathcal T$, a transformation that needs no params; None is `ScaleByAdam()`.
        weight_dimension_numbers: which leaves are projected and how: `GaLoreDimensionNumbers` for all of rank 2 or
            more, a tree of them (None leaves a leaf alone), or a function from params (at init) or updates (at
            update) to such a tree; None means all of rank 2.

    References:
        Zhao et al., GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection, 2024,
        https://arxiv.org/abs/2403.03507
    """

    rank: int = static(128)
    update_proj_gap: Numeric = 200
    scale: Numeric = 1.0
    base_optimizer: GradientTransformation | None = None
    weight_dimension_numbers: Any = static_tree(None)

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.rank, int):
            raise TypeError(f"ScaleByGaLore: rank must be an int, got {type(self.rank).__name__}")
        if self.rank <= 0:
            raise ValueError(f"ScaleByGaLore: rank must be positive, got {self.rank}")

    @property
    def _base(self) -> GradientTransformation:
        return ScaleByAdam() if self.base_optimizer is None else coerce(self.base_optimizer)

    def _views(self, params: Any) -> Any:
        """For each leaf how it is a matrix, or None, as a list in the order of the leaves."""
        if is_params_placeholder(params):  # optax.tree.map_params looks for copies of the parameters
            return []
        given = resolve_tree(self.weight_dimension_numbers, params)
        leaves, treedef = jax.tree.flatten(params)
        if given is None:
            numbers = [GaLoreDimensionNumbers() if x.ndim == 2 else None for x in leaves]
        elif isinstance(given, GaLoreDimensionNumbers):
            numbers = [given if x.ndim >= 2 else None for x in leaves]
        else:
            numbers = treedef.flatten_up_to(given)
        return [None if n is None else _whole_matrix(x.shape, n) for x, n in zip(leaves, numbers, strict=True)]

    def init(self, params):
        require_inexact(params)
        leaves, treedef = jax.tree.flatten(params)
        projectors, small = [], []
        for x, view in zip(leaves, self._views(params), strict=True):
            if view is None:
                projectors.append(jnp.zeros((0, 0), x.dtype))
                small.append(jnp.zeros_like(x))
                continue
            rank = min(self.rank, view.rows, view.columns)
            tall = view.rows >= view.columns
            projectors.append(jnp.zeros((view.rows if tall else view.columns, rank), x.dtype))
            small.append(jnp.zeros((rank, view.columns) if tall else (view.rows, rank), x.dtype))
        return GaLoreState(
            count=jnp.zeros([], jnp.int32),
            base_optimizer_state=self._base.init(treedef.unflatten(small)),
            projector=treedef.unflatten(projectors),
        )

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, GaLoreState)
        renew = (state.count % self.update_proj_gap) == 0
        gradients, treedef = jax.tree.flatten(updates)
        views = self._views(updates)
        projected = [
            (g, old) if view is None else self._project(g, old, view, renew)
            for g, old, view in zip(gradients, treedef.flatten_up_to(state.projector), views, strict=True)
        ]
        small = treedef.unflatten([g for g, _ in projected])
        projectors = [projector for _, projector in projected]
        small, base_state = self._base.update(small, state.base_optimizer_state, None, **extra_args)
        full = [
            u if view is None else self._back(u, projector, view, g.dtype)
            for u, projector, view, g in zip(treedef.flatten_up_to(small), projectors, views, gradients, strict=True)
        ]
        count = optax.safe_increment(state.count)
        return treedef.unflatten(full), GaLoreState(count, base_state, treedef.unflatten(projectors))

    def _project(self, gradient, projector, view: MatrixView, renew):
        matrix = view.view(gradient)[0]
        rank = min(self.rank, view.rows, view.columns)
        tall = view.rows >= view.columns

        def leading():
            u, _, vh = jnp.linalg.svd(matrix.real.astype(jnp.float32), full_matrices=False)
            return (u[:, :rank] if tall else vh[:rank, :].T).astype(projector.dtype)

        projector = jax.lax.cond(renew, leading, lambda: projector)
        return projector.T @ matrix if tall else matrix @ projector, projector

    def _back(self, update, projector, view: MatrixView, dtype):
        full = projector @ update if view.rows >= view.columns else update @ projector.T
        return (self.scale * view.back(full[None])).astype(dtype)


def _whole_matrix(shape: tuple[int, ...], numbers: GaLoreDimensionNumbers) -> MatrixView:
    view = matrix_view(shape, numbers)
    named = sum(1 if isinstance(axis, int) else len(axis) for axis in numbers)
    if named != len(shape):
        raise StructureError(f"needs every axis to be a reduction or an output axis, got {numbers} for shape {shape}")
    return view


@final
class GaLore(AbstractChain):
    r"""GaLore: Adam in the memory of a low rank, for every matrix.

    For large models on small devices; every $k$-th step costs a singular value decomposition per matrix.

    $$ \theta_t = \theta_{t-1} - \eta_t (u_t + \lambda_t\, \theta_{t-1}), \qquad u_t \text{ as in `ScaleByGaLore`} $$

    Args:
        learning_rate: $\eta$, a number or a schedule.
        rank: $r$, a positive integer; at most the smaller side of a matrix is used.
        update_proj_gap: $k$, steps between new projections, a positive integer.
        scale: $\alpha$, factor of the projected updates.
        base_optimizer: the transformation at low rank, one that needs no params; None is `ScaleByAdam()`.
        weight_decay: $\lambda$, a number or a schedule; multiplied by the learning rate.
        mask: tree of bools, or function of the params that makes one: where true, weights decay.
        weight_dimension_numbers: which leaves are projected and how, see `ScaleByGaLore`.

    References:
        Zhao et al., GaLore: Memory-Efficient LLM Training by Gradient Low-Rank Projection, 2024,
        https://arxiv.org/abs/2403.03507
    """

    learning_rate: ScalarOrSchedule
    rank: int = static(128)
    update_proj_gap: Numeric = 200
    scale: Numeric = 1.0
    base_optimizer: GradientTransformation | None = None
    weight_decay: ScalarOrSchedule = 0.0
    mask: Any = static_tree(None)
    weight_dimension_numbers: Any = static_tree(None)

    def __post_init__(self):
        super().__post_init__()
        ScaleByGaLore(self.rank)  # refuses a rank that is none

    @property
    def chain(self):
        return ScaleByGaLore.of(self), AddDecayedWeights.of(self), ScaleByLearningRate(self.learning_rate)


scale_by_galore, galore = ScaleByGaLore, GaLore
