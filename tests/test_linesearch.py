"""Line searches and L-BFGS beyond the rows: errors, derivatives, batches of problems, dtypes, buffers, real data."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from parity.problems import rosenbrock
from pytreeopt import LBFGS, ScaleByBacktrackingLinesearch, ScaleByLBFGS, ScaleByZoomLinesearch
from pytreeopt.errors import HyperparameterValueError, MissingParamsError, UnexpectedArgumentError
from pytreeopt.states import LinesearchFlags

SEARCHES = {
    "backtracking": ScaleByBacktrackingLinesearch(8, store_grad=True),
    "zoom": ScaleByZoomLinesearch(8),
}
every_search = pytest.mark.parametrize("search", [pytest.param(s, id=name) for name, s in SEARCHES.items()])


def bowl(x):
    return jnp.sum(jnp.arange(1.0, x.size + 1, dtype=x.dtype) * x**2)


def moved(x, centre, scale=1.0):
    return scale * jnp.sum((x - centre) ** 2)


def search_once(search, objective, params, updates=None, **extra):
    """Updates and state after one search from a fresh state, by default along the negative gradient."""
    value, grad = jax.value_and_grad(objective)(params, **extra)
    updates = jax.tree.map(jnp.negative, grad) if updates is None else updates
    state = search.init(params)
    return search.update(updates, state, params, value=value, grad=grad, value_fn=objective, **extra)


X = jnp.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize("opt", [*SEARCHES.values(), LBFGS()], ids=[*SEARCHES, "lbfgs"])
def test_two_updates_compile_once(opt):
    traces = 0

    @jax.jit
    def step(params, state):
        nonlocal traces
        traces += 1
        value, grad = jax.value_and_grad(bowl)(params)
        updates, state = opt.update(grad, state, params, value=value, grad=grad, value_fn=bowl)
        return optax.apply_updates(params, updates), state

    params, state = step(X, opt.init(X))
    step(params, state)
    assert traces == 1


@every_search
def test_extra_arguments_go_to_the_objective(search):
    _, state = search_once(search, moved, X, centre=jnp.ones(3), scale=2.0)
    assert state.info.decrease_error == 0
    assert state.value < moved(X, jnp.ones(3), 2.0)

    def takes_any(x, **kwargs):
        return moved(x, **kwargs)

    _, same = search_once(search, takes_any, X, centre=jnp.ones(3), scale=2.0)
    assert same.value == state.value


@every_search
def test_errors(search):
    name = type(search).__name__
    state, at = search.init(X), {"value": bowl(X), "grad": X, "value_fn": bowl}
    refused = rf"^{name}\.update got what value_fn does not take\. Unexpected keyword arguments: batch, key; pass only"
    with pytest.raises(UnexpectedArgumentError, match=refused):
        search.update(X, state, X, **at, key=1, batch=2)
    with pytest.raises(TypeError, match="value_fn"):
        search.update(X, state, X, value=0.0, grad=X)
    with pytest.raises(MissingParamsError, match=rf"{name}.update needs params"):
        search.update(X, state, **at)


def test_errors_of_single_classes():
    with pytest.raises(HyperparameterValueError, match="needs 'one' or 'keep' as initial_guess_strategy, got 'two'"):
        search_once(ScaleByZoomLinesearch(3, initial_guess_strategy="two"), bowl, X)
    for optimizer in (ScaleByLBFGS, LBFGS):
        with pytest.raises(ValueError, match="memory_size must be at least 1, got 0"):
            optimizer(memory_size=0)


@every_search
def test_derivatives_are_by_forward_mode(search):
    def after(factor):
        if isinstance(search, ScaleByZoomLinesearch):
            tuned = search.replace(max_linesearch_steps=2, increase_factor=factor)
        else:
            tuned = search.replace(decrease_factor=factor)
        start = jnp.array([0.01, 2.0, 0.5])
        return bowl(start + search_once(tuned, bowl, start, jnp.array([0.0, -0.1, 0.0]) * factor)[0])

    slope = jax.jvp(after, (0.7,), (1.0,))[1]
    h = 1e-3
    np.testing.assert_allclose(slope, (after(0.7 + h) - after(0.7 - h)) / (2 * h), rtol=1e-2)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        jax.grad(after)(0.7)


@every_search
def test_a_batch_of_problems_and_of_hyperparameters(search):
    def solve(tol, start):
        tuned = search.replace(slope_rtol=tol)
        return search_once(tuned, rosenbrock, start)[1]

    starts = jnp.stack([X, 0.1 * X, -X])
    tolerances = jnp.array([1e-4, 1e-2, 0.3])
    together = jax.jit(jax.vmap(solve))(tolerances, starts)
    for i in range(3):
        alone = jax.jit(solve)(tolerances[i], starts[i])
        jax.tree.map(lambda x, y, i=i: np.testing.assert_allclose(x[i], y, rtol=1e-4, atol=1e-6), together, alone)


@every_search
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("wide_value", [True, False])
@pytest.mark.parametrize("wide_grad", [True, False])
def test_half_precision_params_keep_their_state(search, dtype, wide_value, wide_grad):
    def objective(x):
        return bowl(x.astype(jnp.float32)) if wide_value else bowl(x.astype(dtype))

    params = X.astype(dtype)
    grad = jax.grad(objective)(params).astype(jnp.float32 if wide_grad else dtype)
    state = search.init(params)
    _, new = search.update(-grad, state, params, value=objective(params), grad=grad, value_fn=objective)
    assert jax.tree.map(lambda x: x.dtype, new) == jax.tree.map(lambda x: x.dtype, state)
    assert new.info.decrease_error == 0
    assert new.value < objective(params)


def test_a_failed_search_says_why(capsys):
    up, x = jnp.array([1.0, 0.0]), jnp.array([60.0, 0.0])

    def square(w):
        return jnp.dot(w, w)

    with jax.default_device(jax.devices("cpu")[0]):
        search_once(ScaleByZoomLinesearch(18, curv_rtol=0.5, verbose=True), square, x, up)
        search_once(ScaleByBacktrackingLinesearch(3, verbose=True), square, x, up)
        search_once(ScaleByZoomLinesearch(9, 10.0, curv_rtol=0.5, verbose=True), square, -x, up)
    jax.effects_barrier()
    text = capsys.readouterr().out
    for flag in (
        LinesearchFlags.NOT_A_DESCENT_DIRECTION,
        LinesearchFlags.NO_STEPSIZE_FOUND,
        LinesearchFlags.INTERVAL_NOT_FOUND,
        LinesearchFlags.CURVATURE_COND_NOT_SATISFIED,
        "ScaleByBacktrackingLinesearch found no learning rate",
    ):
        assert flag in text


@pytest.mark.parametrize("opt", [LBFGS(), LBFGS(linesearch=ScaleByBacktrackingLinesearch(20, store_grad=True))])
def test_value_and_grad_from_state(opt):
    value_and_grad = pytreeopt.value_and_grad_from_state(rosenbrock)

    def step(carry, _):
        params, state = carry
        value, grad = value_and_grad(params, state=state)
        updates, state = opt.update(grad, state, params, value=value, grad=grad, value_fn=rosenbrock)
        return (optax.apply_updates(params, updates), state), value

    start = jnp.zeros(4)
    (params, _), values = jax.jit(lambda x: jax.lax.scan(step, (x, opt.init(x)), length=60))(start)
    assert np.all(np.diff(values) <= 1e-6)
    np.testing.assert_allclose(params, 1.0, atol=1e-2)


def test_the_states_of_lbfgs_own_their_buffers():
    opt = ScaleByLBFGS(2)
    gradient = 2 * X
    _, state = opt.update(gradient, opt.init(X), X)
    jax.jit(lambda s: jax.tree.map(lambda x: x + 1, s), donate_argnums=0)(state)
    np.testing.assert_array_equal(gradient, 2 * X)


def test_lbfgs_keeps_the_dtypes_of_its_state():
    params = X.astype(jnp.bfloat16)
    opt = ScaleByLBFGS(2)
    state = opt.init(params)
    _, new = opt.update(X, state, params)
    _, new = opt.update(0.9 * X, new, params * 0.9)
    assert jax.tree.map(lambda x: x.dtype, new) == jax.tree.map(lambda x: x.dtype, state)


def test_hypergradients_of_lbfgs_where_nothing_moves():
    def after(learning_rate):
        opt = LBFGS(learning_rate, memory_size=2, linesearch=None)
        params, state = jnp.ones(3), opt.init(jnp.ones(3))
        for _ in range(2):  # the same gradient twice: the difference, by which L-BFGS divides, is 0
            updates, state = opt.update(X, state, params)
            params = params + updates
        return jnp.sum(params)

    assert np.isfinite(jax.grad(after)(0.1))


def test_logistic_regression_on_real_data_as_upstream():
    datasets = pytest.importorskip("sklearn.datasets")
    points, labels = datasets.load_breast_cancer(return_X_y=True)
    points = jnp.asarray((points - points.mean(0)) / points.std(0), jnp.float32)
    labels = jnp.asarray(labels, jnp.float32)

    def loss(params, points, labels):
        logits = points @ params["w"] + params["b"]
        return jnp.mean(jnp.logaddexp(0, logits) - labels * logits) + 1e-3 * jnp.sum(params["w"] ** 2)

    def train(opt):
        def step(carry, _):
            params, state = carry
            value, grad = jax.value_and_grad(loss)(params, points, labels)
            updates, state = opt.update(
                grad, state, params, value=value, grad=grad, value_fn=loss, points=points, labels=labels
            )
            return (optax.apply_updates(params, updates), state), (value, optax.tree.norm(grad))

        params = {"w": jnp.zeros(30), "b": jnp.zeros(())}
        return jax.jit(lambda x: jax.lax.scan(step, (x, opt.init(x)), length=12))(params)

    ours, theirs = train(pytreeopt.lbfgs()), train(optax.lbfgs())
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert ours[1][1][-1] < 1e-2 * ours[1][1][0]
