"""Gradients by the optimizer: through its steps, to second order, through an inner loop and at the fixed point."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pytreeopt
from parity.oracles import x64
from pytreeopt import hyperparams, replace

CURVATURES = np.array([0.5, 1.0, 2.0])
START = np.array([1.0, -2.0, 0.5])


class InverseTime(pytreeopt.AbstractSchedule):
    """A schedule with numbers of its own, computed in the precision of the run."""

    rate: float
    decay: float

    def __call__(self, count):
        return self.rate / (1 + self.decay * count)


OPTIMIZERS = {
    "adam": pytreeopt.adam(0.05, eps=1e-2, eps_root=1e-2),
    "momentum": pytreeopt.chain(pytreeopt.add_decayed_weights(0.1), pytreeopt.sgd(0.1, 0.8)),
    "schedule": pytreeopt.rmsprop(InverseTime(0.05, 0.1), eps=1e-2, initial_scale=0.1),
}


def objective(params):
    return jnp.sum(CURVATURES * params**2) / 2 + jnp.sum(jnp.cos(params))


def trained(optimizer, segments=1, length=6):
    """The objective after some steps; reverse mode keeps what is between segments only."""

    def step(carry, _):
        params, bound = carry
        return bound.step(jax.grad(objective)(params), params), None

    @jax.checkpoint
    def segment(carry, _):
        return jax.lax.scan(step, carry, length=length // segments)[0], None

    start = jnp.asarray(START)
    carry = start, pytreeopt.bind(optimizer, start)
    (params, _), _ = jax.lax.scan(segment, carry, length=segments)
    return objective(params)


def at(optimizer):
    """The objective after training as a function of the vector of hyperparameters, and that vector."""
    values = hyperparams(optimizer)
    return lambda vector: trained(replace(optimizer, dict(zip(values, vector, strict=True)))), jnp.array(
        list(values.values())
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_first_and_second_derivatives_are_those_of_finite_differences(name):
    with x64(True):
        f, x = at(OPTIMIZERS[name])
        assert x.dtype == jnp.float64
        value, gradient, hessian = jax.jit(lambda x: (f(x), jax.grad(f)(x), jax.hessian(f)(x)))(x)
        both = jax.jit(jax.vmap(jax.value_and_grad(f)))
        h = 1e-5 * jnp.abs(x)
        up, gradient_up = both(x + jnp.diag(h))
        down, gradient_down = both(x - jnp.diag(h))
        np.testing.assert_allclose(gradient, (up - down) / (2 * h), rtol=1e-5, atol=1e-7)
        by_differences = (gradient_up - gradient_down) / (2 * h[:, None])
        np.testing.assert_allclose(hessian, by_differences, rtol=1e-4, atol=1e-5 * float(jnp.abs(hessian).max()))
        assert np.isfinite(value)
        assert np.count_nonzero(gradient) == len(gradient)


def test_the_gradient_has_the_names_of_the_hyperparameters():
    optimizer = OPTIMIZERS["momentum"]
    by_name = jax.grad(lambda values: trained(replace(optimizer, values)))(hyperparams(optimizer))
    by_optimizer = jax.grad(trained)(optimizer)
    assert list(by_name) == ["0.weight_decay", "1.learning_rate", "1.momentum"]
    assert type(by_optimizer) is type(optimizer)
    assert by_name == hyperparams(by_optimizer)


def test_checkpoints_change_memory_alone():
    with x64(True):
        gradients = [jax.jit(jax.grad(lambda o, n=n: trained(o, n)))(OPTIMIZERS["adam"]) for n in (1, 3)]
        for one, other in zip(*map(jax.tree.leaves, gradients), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10)


def test_factors_of_one_step_have_the_gradient_of_the_formula():
    """With `sgd`, d f(p - r s g) / d s = -r g f'(p - r s g) for each element; a prefix sums over those below it."""
    rate, params = 0.1, {"a": jnp.asarray(START), "b": jnp.asarray(2 * START)}
    f = lambda params: objective(params["a"]) + objective(params["b"])
    gradient = jax.grad(f)(params)

    def after(factors):
        optimizer = pytreeopt.chain(pytreeopt.scale_by_tree(factors), pytreeopt.sgd(rate))
        params_after, _ = pytreeopt.bind(optimizer, params).step(gradient, params)
        return f(params_after), params_after

    factors = {"a": jnp.array([0.5, 1.0, 2.0]), "b": jnp.ones(3)}
    by_element, params_after = jax.grad(after, has_aux=True)(factors)
    expected = jax.tree.map(lambda g, h: -rate * g * h, gradient, jax.grad(f)(params_after))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), by_element, expected)

    by_group, params_after = jax.grad(after, has_aux=True)({"a": 1.0, "b": 1.0})
    expected = jax.tree.map(lambda g, h: jnp.sum(-rate * g * h), gradient, jax.grad(f)(params_after))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), by_group, expected)


def test_the_inner_loop_has_the_gradient_of_the_formula():
    """On a quadratic, k inner steps are (I - rH)^k: the chain rule of MAML in closed form."""
    rate, steps = 0.1, 3

    def adapted(params, inner):
        bound = pytreeopt.bind(inner, params)
        for _ in range(steps):
            params, bound = bound.step(CURVATURES * params, params)
        return jnp.sum(params**2) / 2

    by_params, by_inner = jax.grad(adapted, argnums=(0, 1))(jnp.asarray(START), pytreeopt.sgd(rate))
    shrink = 1 - rate * CURVATURES
    np.testing.assert_allclose(by_params, shrink ** (2 * steps) * START, rtol=1e-5)
    by_rate = jnp.sum(-CURVATURES * steps * shrink ** (2 * steps - 1) * START**2)
    np.testing.assert_allclose(by_inner.learning_rate, by_rate, rtol=1e-5)


def test_one_optimizer_descends_parameters_and_inner_optimizer():
    start = jnp.asarray(START)
    meta = start, pytreeopt.as_arrays(pytreeopt.sgd(0.1, momentum=0.5))
    gradient = start, pytreeopt.sgd(2.0, momentum=-1.0)
    (params, inner), _ = pytreeopt.bind(pytreeopt.sgd(0.01), meta).step(gradient, meta)
    np.testing.assert_allclose(params, 0.99 * START, rtol=1e-6)
    assert isinstance(inner, pytreeopt.SGD)
    np.testing.assert_allclose([inner.learning_rate, inner.momentum], [0.08, 0.51], rtol=1e-6)


def test_the_fixed_point_has_the_gradient_of_the_formula():
    """With weight decay d, training on (x - c) A (x - c) / 2 ends at x = Ac / (A + d), so dx/dd = -x / (A + d)."""

    def end(optimizer):
        gradient = lambda params: CURVATURES * (params - START)
        update = lambda params: optimizer.update(gradient(params), optimizer.init(params), params)[0]

        def train(_, params):
            carry = params, pytreeopt.bind(optimizer, params)
            return jax.lax.fori_loop(0, 400, lambda _, carry: carry[1].step(gradient(carry[0]), carry[0]), carry)[0]

        def solve(tangent, y):
            conjugate_gradients = lambda matvec, b: jax.scipy.sparse.linalg.cg(matvec, b, tol=1e-7)[0]
            return jax.lax.custom_linear_solve(lambda x: -tangent(x), -y, conjugate_gradients, symmetric=True)

        return jax.lax.custom_root(update, jnp.zeros(3), train, solve)

    optimizer = pytreeopt.chain(pytreeopt.add_decayed_weights(0.3), pytreeopt.sgd(0.2, momentum=0.5))
    found, by_optimizer = jax.jit(lambda o: (end(o), jax.jacrev(end)(o)))(optimizer)
    expected = CURVATURES * START / (CURVATURES + 0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    derivatives = hyperparams(by_optimizer)
    np.testing.assert_allclose(derivatives["0.weight_decay"], -expected / (CURVATURES + 0.3), rtol=1e-4)
    # Where training ends depends on no step size.
    np.testing.assert_allclose(derivatives["1.learning_rate"], 0, atol=1e-4)
    np.testing.assert_allclose(derivatives["1.momentum"], 0, atol=1e-4)
