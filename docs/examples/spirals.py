"""Tells two spirals apart. An ordinary Optax training script: docs/moving.md changes its one import line."""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import optax
from flax import serialization


def spirals(key, points=128):
    """Points on two spirals with a little noise, and which spiral each is on."""
    turn, noise = jax.random.split(key)
    label = jnp.arange(points) % 2
    radius = jax.random.uniform(turn, (points,), minval=0.2)
    angle = 5.0 * radius + jnp.pi * label
    position = radius[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    return position + 0.01 * jax.random.normal(noise, position.shape), label


def init_params(key, sizes=(2, 32, 32, 2)):
    keys = jax.random.split(key, len(sizes) - 1)
    layers = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [
        {"weight": jax.random.normal(key, (a, b)) * jnp.sqrt(2.0 / a), "bias": jnp.zeros(b)} for key, a, b in layers
    ]


def loss_fn(params, positions, labels):
    *hidden, last = params
    for layer in hidden:
        positions = jnp.tanh(positions @ layer["weight"] + layer["bias"])
    logits = positions @ last["weight"] + last["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def make_optimizer(steps):
    schedule = optax.warmup_cosine_decay_schedule(0.0, 2e-2, steps // 10, steps)
    weights = lambda params: jax.tree.map(lambda x: x.ndim == 2, params)
    adamw = optax.adamw(schedule, weight_decay=1e-3, mask=weights)
    return optax.chain(optax.clip_by_global_norm(1.0), adamw)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="length of the whole run")
    parser.add_argument("--stop", type=int, help="stop after this step")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="continue from this file if it is there, and write it")
    options = parser.parse_args(arguments)

    positions, labels = spirals(jax.random.key(0))
    params = init_params(jax.random.key(1))
    optimizer = make_optimizer(options.steps)
    run = {"step": 0, "params": params, "opt_state": optimizer.init(params)}
    if options.checkpoint and options.checkpoint.exists():
        run = serialization.from_bytes(run, options.checkpoint.read_bytes())

    @jax.jit
    def train_step(params, opt_state):
        loss, grads = jax.value_and_grad(loss_fn)(params, positions, labels)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    stop = options.steps if options.stop is None else options.stop
    while run["step"] < stop:
        params, opt_state, loss = train_step(run["params"], run["opt_state"])
        run = {"step": run["step"] + 1, "params": params, "opt_state": opt_state}
        if run["step"] % 50 == 0:
            print(f"step {run['step']}: loss {loss:.4f}")
    if options.checkpoint:
        options.checkpoint.write_bytes(serialization.to_bytes(run))
    return run


if __name__ == "__main__":
    main()
