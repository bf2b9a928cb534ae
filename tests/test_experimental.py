"""Aggregators beyond the rows: their types, errors, dtypes, and what passes through `process`."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from pytreeopt.errors import StructureError, WrongStateError
from pytreeopt.experimental import aggregating as ours

theirs = optax.experimental.aggregating


def test_every_name_of_the_namespace_is_here():
    public = {name for name in vars(theirs) if not name.startswith("_")}
    imports = {"Any", "NamedTuple", "Protocol", "Sequence", "base", "jax", "jnp", "math", "tree", "utils"}
    assert public - imports <= set(vars(ours))
    assert pytreeopt.microbatch is optax.microbatch
    assert pytreeopt.microbatching.micro_grad is optax.microbatching.micro_grad


def test_signatures_are_upstreams():
    for name, factory in vars(theirs).items():
        own = getattr(ours, name, None)
        if inspect.isfunction(factory) and own not in (None, factory):
            mine, upstreams = inspect.signature(own).parameters.values(), inspect.signature(factory).parameters.values()
            assert [(p.name, p.kind, p.default) for p in mine] == [(p.name, p.kind, p.default) for p in upstreams], name


MAKERS = {
    "average": lambda a, o: a.average_per_element_updates(),
    "accumulate": lambda a, o: a.accumulate_avg_updates(2),
    "incrementally": lambda a, o: a.average_incrementally_updates(0, 2),
    "incrementally, keyword": lambda a, o: a.average_incrementally_updates(accumulation_steps=2, per_elt_axis=0),
    "incrementally, no axis": lambda a, o: a.average_incrementally_updates(None, 2),
    "statistics": lambda a, o: a.get_per_element_mean_and_sum_sq_diff_grads(),
    "process": lambda a, o: a.process(o.identity(), a.average_per_element_updates(), o.sgd(1.0)),
    "process, no axis": lambda a, o: a.process(o.identity(), a.accumulate_avg_updates(2), o.sgd(1.0)),
    "add": lambda a, o: a.add_mean_variance_to_opt(o.sgd(1.0)),
}


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in MAKERS.items()])
def test_aggregators_are_those_of_upstream(make):
    opt, other = make(ours, pytreeopt), make(theirs, optax)
    assert isinstance(opt, ours.Aggregator) == isinstance(other, theirs.Aggregator)
    assert isinstance(opt, optax.GradientTransformationExtraArgs)
    leaves, treedef = jax.tree.flatten(opt)
    assert type(jax.tree.unflatten(treedef, leaves)) is type(opt)
    assert opt.replace() == opt


@pytest.mark.parametrize(
    "make",
    [
        ours.AccumulateAvgUpdates,
        lambda n: ours.average_incrementally_updates(0, n),
        lambda n: ours.get_per_element_mean_and_sum_sq_diff_grads(0, n),
        lambda n: ours.add_mean_variance_to_opt(pytreeopt.sgd(1.0), accumulation_steps=n),
    ],
)
def test_a_number_of_steps_is_positive(make):
    with pytest.raises(ValueError, match="accumulation_steps must be at least 1, got 0"):
        make(0)


def test_errors_of_use():
    statistics = ours.get_per_element_mean_and_sum_sq_diff_grads()
    with pytest.raises(StructureError, match=r"the same number of examples in every leaf, got \[2, 3\]"):
        statistics.update([jnp.ones((2, 4)), jnp.ones((3, 4))], statistics.init([]))
    opt = ours.add_mean_variance_to_opt(pytreeopt.sgd(1.0))
    with pytest.raises(WrongStateError, match="needs three states, got 1"):
        opt.update(jnp.ones((2, 4)), (opt.init(jnp.ones(4)),))
    track = ours.track_per_element_mean_and_variance_with_ema()
    with pytest.raises(TypeError, match="sum_sq_diff_grads"):
        track.update(jnp.ones(4), track.init(jnp.ones(4)))


def test_an_objective_passes_through_process():
    """Upstream hands all extra arguments to `lax.cond`, which takes no functions."""
    opt = ours.process(pytreeopt.identity(), ours.average_per_element_updates(), pytreeopt.lbfgs())

    def loss(x, targets):
        return jnp.mean(jnp.sum((x - targets) ** 2, axis=-1))

    params, targets = jnp.zeros(2), jnp.array([[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]])
    state = opt.init(params)
    for _ in range(4):
        value, grad = jax.value_and_grad(loss)(params, targets)
        grads = jax.vmap(lambda t: jax.grad(loss)(params, t[None]))(targets)  # noqa: B023
        updates, state = opt.update(grads, state, params, value=value, grad=grad, value_fn=loss, targets=targets)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(params, targets.mean(0), rtol=1e-4)


def test_upstreams_pairs_are_children_too():
    average = theirs.Aggregator(
        init=optax.init_empty_state, update=lambda gs, s, _: (jax.tree.map(lambda g: jnp.mean(g, 0), gs), s)
    )
    opt = ours.process(optax.identity(), average, optax.adam(0.1))
    assert isinstance(opt, ours.Aggregator)
    params, grads = jnp.ones(3), jnp.stack([jnp.ones(3), 3 * jnp.ones(3)])
    step = jax.jit(lambda opt, g, s, p: opt.update(g, s, p, unused=1.0))
    updates, _ = step(opt, grads, opt.init(params), params)
    expected, _ = optax.adam(0.1).update(2 * params, optax.adam(0.1).init(params), params)
    np.testing.assert_allclose(updates, expected, rtol=1e-6)


@pytest.mark.parametrize("steps", [1, 2])
def test_states_keep_half_precision(steps):
    """Upstream's weight of a microbatch is float32, and two branches of different dtype are an error there."""
    opt = ours.add_mean_variance_to_opt(pytreeopt.sgd(0.1), accumulation_steps=steps)
    params = jnp.ones(3, jnp.bfloat16)
    state = opt.init(params)
    _, new = jax.jit(opt.update)(jnp.ones((4, 3), jnp.bfloat16), state, params)
    assert jax.tree.map(lambda x: x.dtype, new) == jax.tree.map(lambda x: x.dtype, state)


@pytest.mark.parametrize("steps", [1, 3])
def test_mean_and_variance_are_those_of_all_examples(steps):
    grads = jax.random.normal(jax.random.key(0), (12, 5))
    opt = ours.add_mean_variance_to_opt(pytreeopt.sgd(0.1), 0.9, accumulation_steps=steps)
    state = opt.init(jnp.zeros(5))
    for part in jnp.split(grads, steps):
        updates, state = opt.update(part, state)
    mean, variance = ours.get_unbiased_mean_and_variance_ema(state)
    np.testing.assert_allclose(mean, grads.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, grads.var(0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(updates, -0.1 * grads.mean(0), rtol=1e-5, atol=1e-7)
