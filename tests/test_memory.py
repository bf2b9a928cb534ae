"""What the compiled step allocates, beside Optax's."""

import jax
import jax.numpy as jnp
import optax
import pytest

import pytreeopt


def memory(make, passed: bool):
    """Of a training step with donated params and state; the optimizer is closed over, or an argument."""
    params = {f"layer {i}": jnp.zeros((64, 64)) for i in range(4)}
    x = jnp.ones((32, 64))

    def loss(params):
        h = x
        for layer in params.values():
            h = jnp.tanh(h @ layer)
        return jnp.mean(h**2)

    def step(params, state, optimizer):
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    optimizer = make(1e-3)
    state = optimizer.init(params)
    if passed:
        lowered = jax.jit(step, donate_argnums=(0, 1)).lower(params, state, optimizer)
    else:
        closed = lambda params, state: step(params, state, optimizer)
        lowered = jax.jit(closed, donate_argnums=(0, 1)).lower(params, state)
    compiled = lowered.compile()
    donated = sum(leaf.nbytes for leaf in jax.tree.leaves((params, state)))
    return compiled.memory_analysis(), donated


@pytest.fixture(scope="module")
def upstream():
    return memory(optax.adamw, passed=False)[0]


@pytest.mark.parametrize("passed", [False, True], ids=["closed over", "argument"])
def test_a_donated_step_of_adamw_allocates_no_more_than_upstreams(upstream, passed):
    ours, donated = memory(pytreeopt.adamw, passed)
    assert upstream.temp_size_in_bytes > 0
    assert ours.temp_size_in_bytes <= upstream.temp_size_in_bytes
    assert ours.alias_size_in_bytes == donated  # every donated byte is used again
    assert ours.output_size_in_bytes <= upstream.output_size_in_bytes
