"""Muon: momentum, orthogonalized."""

from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.core import Tracer
from jax.typing import DTypeLike
from optax import safe_increment

from pytreeopt.base import AbstractStateless, GradientTransformation, Numeric, ScalarOrSchedule
from pytreeopt.combinators.chain import Chain
from pytreeopt.combinators.partition import Partition
from pytreeopt.contrib._matrix_view import matrix_view
from pytreeopt.contrib._newton_schulz import PRECONDITIONINGS, orthogonalize
from pytreeopt.errors import OptionError, StructureError, require_state
from pytreeopt.fields import dynamic, resolve_tree, static, static_dtype, static_tree
from pytreeopt.numerics import bias_correction, keep_dtype, nesterov_moment, update_moment, zeros_like
from pytreeopt.optimizers.adam import AdamW
from pytreeopt.states import MuonDimensionNumbers, MuonState
from pytreeopt.transforms.scale import ScaleByLearningRate
from pytreeopt.transforms.weight_decay import AddDecayedWeights

STANDARD = (3.4445, -4.7750, 2.0315)
PRESETS = {
    "standard": STANDARD,
    "dion": (
        (4.0848, -6.8946, 2.9270),
        (3.9505, -6.3029, 2.6377),
        (3.7418, -5.5913, 2.3037),
        (2.8769, -3.1427, 1.2046),
        (2.8366, -3.0525, 1.2012),
    ),
}
Preconditioning = Literal["frobenius", "spectral", "aol", "schatten"]


def as_coefficients(name: str, value: Any) -> Any:
    """Nested tuples of Python numbers, from arrays or lists too; the name of a preset stays one."""
    if isinstance(value, Tracer):
        raise TypeError(f"{name} is static, part of the program, and must hold Python values; got a traced value")
    if isinstance(value, str):
        if value not in PRESETS:
            raise ValueError(f"{name} has no preset {value!r}; choose one of {', '.join(PRESETS)}, or give numbers")
        return value
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        value = value.tolist()
    return tuple(as_coefficients(name, row) for row in value) if isinstance(value, list | tuple) else value


def static_coefficients(default: Any) -> Any:
    """Coefficients of the Newton-Schulz iteration."""
    return struct.field(pytree_node=False, default=default, metadata={"convert": as_coefficients})


@final
class ScaleByMuon(GradientTransformation):
    r"""The nearest orthogonal matrix to the average gradient of each matrix.

    $$ m_t = (1-\beta)\, g_t + \beta m_{t-1}, \qquad u_t = \mathrm{orth}(\hat m_t) \approx U V^\top
    \;\text{ for } \hat m_t = U \Sigma V^\top $$

    with $\hat m_t = m_t / (1-\beta^t)$, or that with Nesterov momentum, and $\mathrm{orth}$ a Newton-Schulz iteration
    $X \leftarrow c_0 X + (c_1 A + c_2 A^2) X$, $A = X X^\top$. `init` freezes `ns_coeffs` into the state; `update`
    reads them there.

    Args:
        ns_coeffs: $c$, three numbers for every step, or three for each of the last steps, or "standard" or "dion".
        ns_steps: number of steps.
        beta: $\beta$, decay of the average, in [0, 1).
        eps: added to the norm by which the matrix is divided first, positive.
        mu_dtype: dtype of the stored $m$; None keeps that of the params.
        nesterov: use Nesterov momentum.
        adaptive: scale by the dual norm $\langle \hat m_t, u_t \rangle$.
        preconditioning: "frobenius", "spectral", "aol" or "schatten": how the matrix is scaled before.
        weight_dimension_numbers: how leaves are matrices: a tree of `MuonDimensionNumbers`, or a function from
            updates to one; None takes matrices only.

    References:
        Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024,
        https://kellerjordan.github.io/posts/muon/
        Bernstein and Newhouse, Old Optimizer, New Norm: An Anthology, 2024, https://arxiv.org/abs/2409.20325
    """

    ns_coeffs: Any = static_coefficients(STANDARD)
    ns_steps: int = static(5)
    beta: Numeric = 0.95
    eps: Numeric = 1e-8
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(True, kw_only=True)
    adaptive: bool = static(False, kw_only=True)
    preconditioning: Preconditioning = static("frobenius", kw_only=True)
    weight_dimension_numbers: Any = static_tree(None, kw_only=True)

    def init(self, params):
        given = self.ns_coeffs
        coefficients = jnp.asarray(PRESETS[given] if isinstance(given, str) else given)
        if coefficients.ndim > 2 or coefficients.shape[-1:] != (3,):
            raise OptionError(f"needs ns_coeffs of shape (3,) or (n, 3), got {coefficients.shape}")
        if coefficients.ndim == 2:
            if coefficients.shape[0] > self.ns_steps:
                raise OptionError(f"needs ns_steps of at least {coefficients.shape[0]}, got {self.ns_steps}")
            coefficients = coefficients[-self.ns_steps :]
        return MuonState(jnp.zeros([], jnp.int32), zeros_like(params, self.mu_dtype), coefficients)

    def update(self, updates, state, params=None, **extra_args):
        state = require_state(state, MuonState)
        if self.preconditioning not in PRECONDITIONINGS:
            choices = ", ".join(map(repr, PRECONDITIONINGS))
            raise OptionError(f"has no preconditioning {self.preconditioning!r}; choose one of {choices}")
        count = safe_increment(state.count)
        mu = update_moment(updates, state.mu, self.beta, 1)
        if self.nesterov:
            mu_hat = nesterov_moment(mu, updates, self.beta, count)
        else:
            mu_hat = bias_correction(mu, self.beta, count)
        numbers = dimension_numbers(self.weight_dimension_numbers, updates)
        direction = jax.tree.map(lambda x, n: self._orthogonalize(x, n, state.ns_coeffs), mu_hat, numbers)
        if self.adaptive:
            direction = jax.tree.map(lambda x, y: jnp.sum(x.conj() * y) * y, mu_hat, direction)
        return direction, MuonState(count, keep_dtype(mu, state.mu, self.mu_dtype), state.ns_coeffs)

    def _orthogonalize(self, x, numbers, coefficients):
        if x.ndim != 2 and not isinstance(numbers, MuonDimensionNumbers):
            raise StructureError(f"needs matrices, or weight_dimension_numbers that make them, got shape {x.shape}")
        matrices = matrix_view(x.shape, MuonDimensionNumbers() if x.ndim == 2 else numbers)

        def one(matrix):
            return orthogonalize(matrix, coefficients, self.ns_steps, self.preconditioning, self.eps)

        return matrices.back(jax.vmap(one)(matrices.view(x)))


@final
class ScaleByShape(AbstractStateless):
    r"""Scales the update of each matrix by its shape, so that a learning rate serves all widths.

    $$ u \sqrt{\max(1, n_{\mathrm{out}} / n_{\mathrm{in}})} \;\text{ or }\;
    c\, u \sqrt{\max(n_{\mathrm{in}}, n_{\mathrm{out}})} $$

    Args:
        weight_dimension_numbers: how leaves are matrices, see `ScaleByMuon`.
        consistent_rms: $c$, the root mean square of the result for an orthogonal matrix, or None: the first form.

    References:
        Liu et al., Muon is Scalable for LLM Training, 2025, https://arxiv.org/abs/2502.16982
    """

    weight_dimension_numbers: Any = static_tree(None)
    consistent_rms: Numeric | None = None

    def transform(self, updates, params):
        numbers = dimension_numbers(self.weight_dimension_numbers, updates)
        return jax.tree.map(self._scale, updates, numbers)

    def _scale(self, update, numbers):
        matrices = matrix_view(update.shape, MuonDimensionNumbers() if numbers is None else numbers)
        if self.consistent_rms is None:
            return jnp.sqrt(jnp.maximum(1, matrices.columns / matrices.rows)) * update
        return jnp.sqrt(jnp.maximum(matrices.rows, matrices.columns)) * self.consistent_rms * update


def dimension_numbers(given: Any, tree: Any) -> Any:
    """What was given (None, a tree, a prefix of one, or a function) as a tree over the leaves of `tree`."""
    if given is None:
        return jax.tree.map(lambda _: None, tree)
    return jax.tree.map(
        lambda numbers, subtree: jax.tree.map(lambda _: numbers, subtree),
        resolve_tree(given, tree),
        tree,
        is_leaf=lambda x: x is None or isinstance(x, MuonDimensionNumbers),
    )


@final
class Muon(GradientTransformation):
    r"""Muon for the matrices, AdamW for the rest.

    For the hidden layers of large networks; give embeddings and the output layer to AdamW by dimension numbers.

    $$ \theta_t = \theta_{t-1} - \eta_t (s\, u_t + \lambda_t\, \theta_{t-1}), \qquad
    u_t \text{ as in `ScaleByMuon`}, \quad s \text{ as in `ScaleByShape`} $$

    The state is that of `Partition`, with parts "muon" and "adam". `init` freezes `ns_coeffs` into the state.

    Args:
        learning_rate: $\eta$, a number or a schedule.
        ns_coeffs: coefficients of the iteration, see `ScaleByMuon`.
        ns_steps: number of its steps.
        beta: decay of the average gradient of matrices, in [0, 1).
        eps: added to the norm of a matrix, and AdamW's $\epsilon$, positive.
        weight_decay: $\lambda$ of matrices, a number or a schedule.
        weight_decay_mask: tree of bools, or function of the params that makes one: where true, matrices decay.
        mu_dtype: dtype of the stored average gradients; None keeps that of the params.
        nesterov: use Nesterov momentum, in both parts.
        adaptive: scale by the dual norm, see `ScaleByMuon`.
        preconditioning: "frobenius", "spectral", "aol" or "schatten".
        adam_b1: AdamW's $\beta_1$.
        adam_b2: AdamW's $\beta_2$.
        adam_eps_root: AdamW's $\bar\epsilon$.
        adam_weight_decay: AdamW's $\lambda$, a number or a schedule.
        adam_learning_rate: AdamW's rate, a number or a schedule; None means `learning_rate`.
        muon_weight_dimension_numbers: which leaves are matrices and how: a tree of `MuonDimensionNumbers` (None is
            AdamW's), a prefix of one, or a function of the params; None means all leaves of rank 2.
        consistent_rms: root mean square of the updates of matrices, or None, see `ScaleByShape`.

    References:
        Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024,
        https://kellerjordan.github.io/posts/muon/
        Liu et al., Muon is Scalable for LLM Training, 2025, https://arxiv.org/abs/2502.16982
    """

    learning_rate: ScalarOrSchedule
    ns_coeffs: Any = static_coefficients(STANDARD)
    ns_steps: int = static(5)
    beta: Numeric = 0.95
    eps: Numeric = 1e-8
    weight_decay: ScalarOrSchedule = 0.0
    weight_decay_mask: Any = static_tree(None)
    mu_dtype: DTypeLike | None = static_dtype(None)
    nesterov: bool = static(True, kw_only=True)
    adaptive: bool = static(False, kw_only=True)
    preconditioning: Preconditioning = static("frobenius", kw_only=True)
    adam_b1: Numeric = dynamic(0.9, kw_only=True)
    adam_b2: Numeric = dynamic(0.999, kw_only=True)
    adam_eps_root: Numeric = dynamic(0.0, kw_only=True)
    adam_weight_decay: ScalarOrSchedule = dynamic(0.0, kw_only=True)
    adam_learning_rate: ScalarOrSchedule | None = dynamic(None, kw_only=True)
    muon_weight_dimension_numbers: Any = static_tree(None, kw_only=True)
    consistent_rms: Numeric | None = dynamic(None, kw_only=True)

    def _numbers(self, params: Any) -> Any:
        if self.muon_weight_dimension_numbers is None:
            return jax.tree.map(lambda x: MuonDimensionNumbers() if x.ndim == 2 else None, params)
        return dimension_numbers(self.muon_weight_dimension_numbers, params)

    def _labels(self, params: Any) -> Any:
        return jax.tree.map(lambda _, n: "adam" if n is None else "muon", params, self._numbers(params))

    @property
    def partition(self) -> Partition:
        """What this optimizer stands for."""
        matrices = Chain(
            (
                ScaleByMuon.of(self, weight_dimension_numbers=self._numbers),
                ScaleByShape(self._numbers, self.consistent_rms),
                AddDecayedWeights(self.weight_decay, self.weight_decay_mask),
                ScaleByLearningRate(self.learning_rate),
            )
        )
        rest = AdamW(
            learning_rate=self.learning_rate if self.adam_learning_rate is None else self.adam_learning_rate,
            b1=self.adam_b1,
            b2=self.adam_b2,
            eps=self.eps,
            eps_root=self.adam_eps_root,
            mu_dtype=self.mu_dtype,
            weight_decay=self.adam_weight_decay,
            nesterov=self.nesterov,
        )
        return Partition({"muon": matrices, "adam": rest}, self._labels)

    def init(self, params):
        return self.partition.init(params)

    def update(self, updates, state, params=None, **extra_args):
        return self.partition.update(updates, state, params, **extra_args)


scale_by_muon, muon = ScaleByMuon, Muon
