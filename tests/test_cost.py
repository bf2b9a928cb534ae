"""What a step costs beside Optax's, by counts that never vary. `make bench` has the times."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from parity.bench import contestants, cost
from parity.bench.clock import python_calls
from parity.bench.contestants import ARGUMENT, CLOSED, OPTAX
from parity.bench.sections import Plain
from parity.rows import ROWS

DEFAULTS = [name for name, row in ROWS.items() if row.default]
CLEAR_EVERY = 60

_rows_run = itertools.count(1)


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_compiled_step_costs_no_more_than_upstreams(name):
    ours, theirs = (cost.of_row(ROWS[name], library) for library in (pytreeopt, optax))
    assert max(cost.ratios(name, ours, theirs).values()) <= cost.EQUAL, (ours, theirs)
    if next(_rows_run) % CLEAR_EVERY == 0:
        jax.clear_caches()


def test_a_sweep_of_rates_is_one_program():
    rates = np.logspace(-3, -1, 4)
    losses, programs = cost.sweep_as_argument(rates, steps=3)
    expected, one_each = cost.sweep_static(rates, steps=3)
    assert (programs, one_each) == (1, 4)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


@pytest.fixture(scope="module")
def traced():
    """Equations of AdamW's step and calls of the interpreter while it is traced, at 40 and at 80 leaves."""
    found = {}
    for leaves in (40, 80):
        steps = contestants.steps(leaves)
        for name in (OPTAX, CLOSED, ARGUMENT):
            steps[name].trace()  # what JAX remembers of the operations themselves
            found[name, leaves] = cost.equations(steps[name].trace().jaxpr), python_calls(steps[name].trace)
    return found


@pytest.mark.parametrize("name", [CLOSED, ARGUMENT])
def test_tracing_is_less_work_than_upstreams(traced, name):
    for ours, theirs in zip(traced[name, 80], traced[OPTAX, 80], strict=True):
        assert ours <= 0.6 * theirs


@pytest.mark.parametrize("name", [CLOSED, ARGUMENT])
def test_tracing_grows_with_the_number_of_leaves(traced, name):
    for few, many in zip(traced[name, 40], traced[name, 80], strict=True):
        assert many <= 2 * few


@pytest.mark.parametrize("name, most", [("adamw", 0.8), ("sgd", 1.0), ("lion", 1.0), ("rmsprop", 0.8)])
def test_an_update_without_jit_is_less_work_than_upstreams(name, most):
    params = contestants.tree(20)
    calls = []
    for library in (pytreeopt, optax):
        opt = getattr(library, name)(1e-3)
        state = opt.init(params)
        opt.update(params, state, params)
        calls.append(python_calls(lambda opt=opt, state=state: opt.update(params, state, params)))
    assert calls[0] <= most * calls[1] + 150  # what a call costs whatever the number of leaves


@pytest.mark.parametrize("kind", [lambda x: x, pytreeopt.as_arrays], ids=["numbers", "arrays"])
def test_unflatten_does_little_beside_a_plain_dataclass(kind):
    """Each array costs one call, to ask whether it is weakly typed."""
    counts = []
    for opt in (pytreeopt.adamw(1e-3), Plain(1e-3)):
        leaves, treedef = jax.tree.flatten(kind(opt))
        jax.tree.unflatten(treedef, leaves)
        counts.append(python_calls(lambda leaves=leaves, treedef=treedef: jax.tree.unflatten(treedef, leaves)))
    assert counts[0] <= counts[1] + 7 + (6 if kind is pytreeopt.as_arrays else 0)


def test_an_excess_is_bounded():
    one = cost.Cost(100.0, 100.0, 1000)
    assert cost.ratios("adamw", one._replace(flops=101.0), one)["flops"] == 1.01
    assert cost.ratios("lookahead", one._replace(flops=149.0), one)["flops"] == 1
    assert cost.ratios("lookahead", one._replace(flops=160.0), one)["flops"] == 1.6
    assert cost.ratios("adamw", one._replace(temporary=1100), one)["temporary"] == 1
    assert cost.ratios("adamw", one._replace(temporary=1500), one)["temporary"] == 1.5
    assert cost.EXCESS.keys() <= set(DEFAULTS)


def test_costs_and_counts_can_differ():
    """The measures see a difference where there is one."""
    wide = lambda x: jnp.sin(x) + jnp.cos(x)
    assert cost.equations(jax.make_jaxpr(wide)(1.0)) == 3
    nested = jax.make_jaxpr(lambda x: jax.lax.cond(x > 0, wide, jnp.sin, x))(1.0)
    assert cost.equations(nested) > 4
    inner = jax.jit(wide)
    assert cost.equations(jax.make_jaxpr(lambda x: inner(x) + inner(x))(1.0)) == 2 + 1 + 3
    assert python_calls(lambda: [abs(x) for x in range(50)]) - python_calls(lambda: [abs(x) for x in range(10)]) == 40
    cheap, dear = (cost.of_row(ROWS[name], optax) for name in ("sgd", "adamw"))
    assert cheap.flops < dear.flops
    assert cheap.bytes_accessed < dear.bytes_accessed
