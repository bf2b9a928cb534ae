"""What holds for every optimizer because it is a pytree, tried on the default row of every class."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import serialization

from laws import (
    STEPS,
    build,
    every_row,
    float_leaves,
    given,
    holds_schedule,
    leaves_by_path,
    run,
    spellings,
    start,
    two_leaves,
    with_leaf,
    x64,
)
from pytreeopt.errors import TransformationError
from pytreeopt.states import EmptyState


def aval(x):
    weak = getattr(x, "weak_type", isinstance(x, float | int))
    return jnp.shape(x), jnp.result_type(x), bool(weak)


def avals(tree):
    return jax.tree.map(aval, tree)


@every_row
def test_one_compile_for_every_value_and_spelling(row):
    """Also: the population trained by vmap equals the members trained one by one."""
    opt, at = build(row), two_leaves(row)
    traces = 0

    def train(opt):
        nonlocal traces
        traces += 1
        return run(row, opt, at)

    compiled = jax.jit(train)
    compiled(opt)
    members = [opt]
    for path, position, value in leaves_by_path(opt):
        for other in spellings(value + 1 if isinstance(value, int) else value * 0.97):
            compiled(with_leaf(opt, position, other))
        assert traces == 1, f"{path} compiled anew"
    for factor in (0.9, 0.95):
        member = opt
        for _, position, value in float_leaves(opt):
            member = with_leaf(member, position, value * factor)
        members.append(member)
    if float_leaves(opt):
        population = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *members)
        together = jax.jit(jax.vmap(train))(population)
        for index, member in enumerate(members):
            alone = compiled(member)
            one = jax.tree.map(lambda x, i=index: x[i], together)
            jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6), one, alone)


@every_row
def test_hypergradients_agree_with_finite_differences(row):
    opt = build(row)
    fields = float_leaves(opt)
    if not fields:
        assert not row.no_gradient
        return
    with x64(True):
        at = two_leaves(row, "float64")

        def loss(values):
            tuned = opt
            for (_, position, _), value in zip(fields, values, strict=True):
                tuned = with_leaf(tuned, position, value)
            result = sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(run(row, tuned, at)))
            return result, result

        # Schedules compute in float32 even under x64, as Optax's do: their differences need longer steps.
        step, rtol = (3e-3, 1e-3) if row.float32_inside or holds_schedule(opt) else (1e-5, 1e-4)
        values = [value for _, _, value in fields]
        derivative = jax.jacfwd if row.forward_only else jax.grad
        slopes_and_loss = jax.jit(derivative(loss, has_aux=True))
        slopes, _ = slopes_and_loss(values)
        for index, (path, _, value) in enumerate(fields):
            slope = float(slopes[index])
            if path in row.no_gradient:
                assert np.isfinite(slope) or row.no_gradient[path].startswith("undefined"), path
                continue
            assert np.isfinite(slope), f"{path}: {slope}"
            h = max(step * abs(value), 1e-7)
            ends = [[*values[:index], value + sign * h, *values[index + 1 :]] for sign in (1, -1)]
            above, below = (slopes_and_loss(end)[1] for end in ends)
            expected = float(above - below) / (2 * h)
            np.testing.assert_allclose(slope, expected, rtol=rtol, atol=1e-6, err_msg=path)


@every_row
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("spelling", [float, jnp.float32])
def test_avals_are_stable_from_init_to_the_second_update(row, dtype, spelling):
    if not row.runs_in(dtype):
        return
    opt, at = build(row), given(row, dtype)
    for _, position, value in float_leaves(opt):
        opt = with_leaf(opt, position, spelling(value))

    def two_updates(params, gradients, extra):
        first = start(row, opt, at._replace(params=params))
        updates, second = opt.update(gradients[0], first, params, **extra)
        again, third = opt.update(gradients[1], second, params, **extra)
        return first, second, third, updates, again

    first, second, third, updates, again = jax.eval_shape(two_updates, at.params, at.gradients, at.extra[0])
    assert avals(second) == avals(third)
    assert avals(first) == avals(second)
    assert avals(updates) == avals(again)
    eager = start(row, opt, at)
    assert avals(eager) == avals(first)


@every_row
def test_is_carried_by_scan_cond_and_checkpoint(row):
    opt, at = build(row), given(row)
    gradient, extra = at.gradients[0], at.extra[0]

    def train(opt, params):
        def step(carry, _):
            opt, state, params = carry
            _, state = jax.checkpoint(lambda s: opt.update(gradient, s, params, **extra))(state)
            opt = jax.lax.cond(jnp.sum(jnp.ones(2)) > 1, lambda o: o, lambda o: jax.tree.map(lambda x: x, o), opt)
            return (opt, state, params), None

        return jax.lax.scan(step, (opt, start(row, opt, at._replace(params=params)), params), length=STEPS)[0]

    opt = jax.tree.map(jnp.asarray, opt)
    carried, _, _ = jax.eval_shape(train, opt, at.params)
    assert avals(carried) == avals(opt)


@every_row
def test_round_trips(row):
    opt = build(row)
    assert copy.deepcopy(opt) == opt == copy.copy(opt)
    assert serialization.from_bytes(opt, serialization.to_bytes(opt)) == opt
    assert hash(copy.deepcopy(opt)) == hash(opt)
    leaves, treedef = jax.tree.flatten(opt)
    assert jax.tree.unflatten(treedef, leaves) == opt
    for _, position, value in leaves_by_path(opt):
        other = value + 1 if isinstance(value, int) else 0.97 * value + 1e-3
        assert with_leaf(opt, position, other) != opt
    try:
        pickled = pickle.dumps(opt)
    except (pickle.PicklingError, AttributeError, TypeError):
        pytest.fail("not picklable; build the row from module-level functions")
    assert pickle.loads(pickled) == opt


@every_row
def test_a_fresh_state_owns_its_buffers(row):
    """Or else donating the state would destroy the parameters, or XLA refuse to donate a buffer twice."""
    opt, at = build(row), given(row)
    leaves = [x for x in jax.tree.leaves((opt.init(at.params), at.params)) if isinstance(x, jax.Array) and x.size]
    leaves = [jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in leaves]
    pointers = [x.unsafe_buffer_pointer() for x in leaves]
    assert len(set(pointers)) == len(pointers)


@every_row
def test_the_state_of_another_optimizer_is_refused(row):
    opt, at = build(row), given(row)
    state = opt.init(at.params)
    if not jax.tree.leaves(state):
        return
    for wrong in (EmptyState(), (EmptyState(),) * 7, {"count": 0}, None):
        with pytest.raises(TransformationError, match=rf"^{type(opt).__name__}\.update"):
            opt.update(at.gradients[0], wrong, at.params, **at.extra[0])
