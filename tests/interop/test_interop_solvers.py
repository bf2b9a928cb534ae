"""Solvers and training loops that take an optimizer: Optimistix, JAXopt, NumPyro, Haiku."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pytreeopt
from consumers import AS_ARGUMENT, PARAMS, X, Y, assert_same, library, loss

pytestmark = pytest.mark.interop


def test_optimistix_minimiser(pair):
    optimistix = library("optimistix")

    def solution(tx):
        solver = optimistix.OptaxMinimiser(tx, rtol=1e-6, atol=1e-6)
        return optimistix.minimise(lambda params, _: loss(params), solver, PARAMS, max_steps=10, throw=False).value

    assert_same(solution(pair.ours), solution(pair.theirs), rtol=AS_ARGUMENT)


def test_optimistix_differentiates_through_the_learning_rate():
    optimistix = library("optimistix")

    def final_loss(rate, namespace):
        solver = optimistix.OptaxMinimiser(namespace.sgd(rate), rtol=1e-6, atol=1e-6)
        direct = optimistix.RecursiveCheckpointAdjoint()
        options = {"max_steps": 4, "throw": False, "adjoint": direct}
        return loss(optimistix.minimise(lambda params, _: loss(params), solver, PARAMS, **options).value)

    ours, theirs = (jax.grad(final_loss)(0.01, namespace) for namespace in (pytreeopt, optax))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert ours < 0


def test_optimistix_passes_value_and_value_fn():
    optimistix = library("optimistix")
    solver = optimistix.OptaxMinimiser(pytreeopt.lbfgs(), rtol=1e-6, atol=1e-6)
    found = optimistix.minimise(lambda params, _: loss(params), solver, PARAMS, max_steps=30, throw=False).value
    assert loss(found) < 1e-6


def test_jaxopt_solver(pair):
    jaxopt = library("jaxopt")

    def solution(tx):
        return jaxopt.OptaxSolver(loss, tx, maxiter=5, tol=0.0).run(PARAMS)

    ours, theirs = solution(pair.ours), solution(pair.theirs)
    assert_same(ours.params, theirs.params, pair.rtol)
    assert_same(ours.state.internal_state, theirs.state.internal_state, pair.rtol)


def svi(optim):
    numpyro, infer = library("numpyro"), library("numpyro.infer")

    def model():
        weight = numpyro.sample("weight", numpyro.distributions.Normal(jnp.zeros(3), 1.0).to_event(1))
        numpyro.sample("y", numpyro.distributions.Normal(X @ weight, 0.5), obs=Y)

    guide = infer.autoguide.AutoDelta(model)
    result = infer.SVI(model, guide, optim, infer.Trace_ELBO()).run(jax.random.key(0), 5, progress_bar=False)
    return result.params, result.losses


def test_numpyro_svi(pair):
    assert_same(svi(pair.ours), svi(pair.theirs), pair.rtol)


def test_optax_to_numpyro(pair):
    convert = library("numpyro.optim").optax_to_numpyro
    assert_same(svi(convert(pair.ours)), svi(convert(pair.theirs)), pair.rtol)


def test_optax_to_numpyro_passes_the_value():
    convert = library("numpyro.optim").optax_to_numpyro
    assert_same(svi(convert(pytreeopt.polyak_sgd())), svi(convert(optax.polyak_sgd())))


def test_haiku_training_loop(pair):
    haiku = library("haiku")
    network = haiku.transform(lambda x: haiku.nets.MLP([4, 1])(x)[:, 0])
    params = haiku.data_structures.to_immutable_dict(network.init(jax.random.key(0), X))

    def run(tx):
        @jax.jit
        def step(params, state):
            gradient = jax.grad(lambda params: jnp.mean((network.apply(params, None, X) - Y) ** 2))(params)
            updates, state = tx.update(gradient, state, params)
            return optax.apply_updates(params, updates), state

        values, state = params, tx.init(params)
        for _ in range(3):
            values, state = step(values, state)
        return values, state

    ours, theirs = run(pair.ours), run(pair.theirs)
    assert type(ours[0]) is type(params)
    assert_same(ours, theirs, pair.rtol)
