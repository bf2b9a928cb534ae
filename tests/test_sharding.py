"""Eight devices: optimizers, states and populations in shards, equal to one device; what travels; two processes."""

import contextlib
import io
import json
import pathlib
import re
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, PartitionSpec as P

import pytreeopt
from pytreeopt import population

ROOT = pathlib.Path(__file__).parent.parent
SCALING = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scaling.md").read_text(), re.DOTALL)
COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")


@pytest.fixture(scope="module")
def mesh():
    if jax.device_count() != 8:
        pytest.fail("these tests need XLA_FLAGS=--xla_force_host_platform_device_count=8, as tests/conftest.py sets it")
    return jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))


def problem():
    """Parameters and a few gradients. Shards fill whole vector registers: a remainder may round a root otherwise."""
    draw = np.random.default_rng(0)
    leaf = lambda *shape: draw.normal(size=shape).astype(np.float32)
    params = {"kernel": leaf(16, 128), "bias": leaf(128)}
    gradients = {"kernel": leaf(3, 16, 128), "bias": leaf(3, 128)}
    return params, gradients


def follow(optimizer, params, state, gradients):
    """Some updates, without the model: the gradients are given."""

    def step(carry, gradient):
        params, state = carry
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, state), gradients)[0]


follow_compiled = jax.jit(follow)


def collectives(function, *arguments):
    text = function.lower(*arguments).compile().as_text()
    return {name: len(re.findall(rf"= \S+ {name}(?:-start)?\(", text)) for name in COLLECTIVES if name in text}


def assert_equal(a, b):
    for (path, x), y in zip(jax.tree.leaves_with_path(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y), err_msg=jax.tree_util.keystr(path))


def relative(a, b):
    a, b = (np.concatenate([np.ravel(np.asarray(x)) for x in jax.tree.leaves(tree)]) for tree in (a, b))
    return np.linalg.norm(a - b) / np.linalg.norm(b)


ELEMENTWISE = {
    "adamw": pytreeopt.adamw(0.1),
    "momentum": pytreeopt.sgd(0.1, momentum=0.9, nesterov=True),
    "lion, chained": pytreeopt.chain(pytreeopt.clip(0.5), pytreeopt.lion(0.01, weight_decay=0.1)),
    "rmsprop, scheduled": pytreeopt.rmsprop(pytreeopt.cosine_decay_schedule(0.1, 10), centered=True),
}
ACROSS = {
    "lamb": pytreeopt.lamb(0.1),
    "clipped by norm": pytreeopt.chain(pytreeopt.clip_by_global_norm(1.0), pytreeopt.adam(0.1)),
}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *ACROSS])
def test_the_state_takes_the_sharding_of_the_params_and_the_numbers_are_those_of_one_device(name, mesh):
    optimizer = (ELEMENTWISE | ACROSS)[name]
    params, gradients = problem()
    expected = follow_compiled(optimizer, params, optimizer.init(params), gradients)
    specs = {"kernel": P("data", None), "bias": P("data")}
    with jax.set_mesh(mesh):
        params = jax.device_put(params, specs)
        gradients = jax.device_put(gradients, {"kernel": P(None, "data"), "bias": P(None, "data")})
        state = jax.jit(lambda optimizer, params: optimizer.init(params))(optimizer, params)
        found = follow_compiled(optimizer, params, state, gradients)
    shapes = {leaf.shape: leaf.sharding.spec for leaf in jax.tree.leaves(params)}
    moments = [leaf for leaf in jax.tree.leaves((state, found)) if leaf.ndim]
    assert len(moments) >= 4
    for leaf in moments:
        assert leaf.sharding.spec == shapes[leaf.shape]
        assert leaf.addressable_shards[0].data.size == leaf.size / 8
    if name in ELEMENTWISE:
        assert_equal(found, expected)
    else:
        assert relative(found, expected) < 1e-6


def test_with_auto_axes_init_outside_jit_follows_the_params():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    kernel = jax.device_put(jnp.ones((16, 8)), jax.sharding.NamedSharding(mesh, P("data")))
    state = pytreeopt.adamw(0.1).init(kernel)
    assert state[0].mu.sharding == state[0].nu.sharding == kernel.sharding


@pytest.fixture(scope="module")
def sweep():
    """A population of sixteen with states and gradients, and what one device makes of it."""
    params, gradients = problem()
    optimizers = population.grid(
        pytreeopt.adamw(0.1), {"learning_rate": np.geomspace(1e-3, 1.0, 8).tolist(), "weight_decay": [0.0, 0.1]}
    )[0]
    params = population.broadcast(params, 16)
    every = jax.vmap(follow, in_axes=(0, 0, 0, None))
    states = jax.vmap(lambda optimizer, params: optimizer.init(params))(optimizers, params)
    return (optimizers, params, states, gradients), every, jax.jit(every)(optimizers, params, states, gradients)


def test_a_population_in_shards_is_that_of_one_device_to_the_bit(mesh, sweep):
    (optimizers, params, _, gradients), every, expected = sweep
    with jax.set_mesh(mesh):
        optimizers, params = jax.device_put((optimizers, params), P("data"))
        init = jax.vmap(lambda optimizer, params: optimizer.init(params))
        states = jax.jit(init, out_shardings=P("data"))(optimizers, params)
        arguments = optimizers, params, states, jax.device_put(gradients, P())
        found = jax.jit(every)(*arguments)
        assert collectives(jax.jit(every), *arguments) == {}
    for leaf in jax.tree.leaves((states, found)):
        assert leaf.sharding.spec[0] == "data"
        assert leaf.addressable_shards[0].data.shape[0] == 2
    assert_equal(found, expected)


@pytest.mark.parametrize("axes", [AxisType.Auto, AxisType.Explicit])
def test_take_crosses_devices(sweep, axes):
    """Where the copies come from is known at run time only."""
    (optimizers, params, *_), _, _ = sweep
    parents = jnp.arange(16)[::-1]
    mesh = jax.make_mesh((8,), ("data",), axis_types=(axes,))
    by_member = jax.sharding.NamedSharding(mesh, P("data"))
    shards = jax.device_put((optimizers, params), by_member)
    found = jax.jit(population.take, out_shardings=by_member)(shards, parents)
    for leaf in jax.tree.leaves(found):
        assert leaf.addressable_shards[0].data.shape[0] == 2
    assert_equal(found, population.take((optimizers, params), parents))
    for index in (3, jnp.int32(3), jnp.array([5, 0, 5])):
        expected = population.take(params, index)
        assert_equal(population.take(shards[1], index), expected)
        assert_equal(jax.jit(population.take)(shards[1], index), expected)


def test_a_population_under_shard_map_is_that_of_one_device_to_the_bit(mesh, sweep):
    arguments, every, expected = sweep
    specs = P("data"), P("data"), P("data"), P()
    with jax.set_mesh(mesh):
        arguments = [jax.device_put(x, spec) for x, spec in zip(arguments, specs, strict=True)]
        found = jax.jit(jax.shard_map(every, mesh=mesh, in_specs=specs, out_specs=P("data")))(*arguments)
    assert_equal(found, expected)


def test_a_step_under_shard_map_sums_the_gradients_once(mesh):
    """The optimizer is an argument of the step that each device runs; one sum of P bytes crosses the devices."""
    x = np.random.default_rng(1).normal(size=(32, 16)).astype(np.float32)
    params, optimizer = problem()[0]["kernel"], pytreeopt.adamw(0.1)
    loss = lambda params, x: jnp.mean(jnp.tanh(x @ params) ** 2)

    def step(params, bound, x):
        return bound.step(jax.grad(loss)(params, x), params)

    def local_step(params, bound, x):
        gradient = jax.grad(lambda params: jax.lax.pmean(loss(params, x), "data"))(params)
        return bound.step(gradient, params)

    bound = pytreeopt.bind(optimizer, params)
    expected = jax.jit(step)(params, bound, x)
    by_device = jax.jit(jax.shard_map(local_step, mesh=mesh, in_specs=(P(), P(), P("data")), out_specs=P()))
    with jax.set_mesh(mesh):
        arguments = *jax.device_put((params, bound), P()), jax.device_put(x, P("data"))
        found = by_device(*arguments)
        assert collectives(by_device, *arguments) == {"all-reduce": 1}
    assert relative(found[0], expected[0]) < 1e-6
    assert relative(found[1].state[0].mu, expected[1].state[0].mu) < 1e-6


def printed_figures(text):
    """What the program of docs/scaling.md prints, without the number of devices."""
    return {label: value for label, value in re.findall(r"^(.*?): (.*)$", text, re.MULTILINE) if label != "devices"}


@pytest.fixture(scope="module")
def figures_here():
    """The program of docs/scaling.md as it stands, on the eight devices of this process."""
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as text:
        for block in SCALING:
            exec(compile(block, "scaling.md", "exec"), names)
    return printed_figures(text.getvalue())


@pytest.mark.slow
def test_the_page_on_scaling_runs_as_it_stands(figures_here, mesh):
    assert set(figures_here) == {"best loss", "loss of the large model", "moments", "by hand"}
    assert figures_here["moments"].endswith("('data', None)")
    assert float(figures_here["by hand"]) == pytest.approx(float(figures_here["loss of the large model"]), rel=1e-5)


PROCESS = """
import json, sys
import jax
address, number, program = sys.argv[1], int(sys.argv[2]), json.load(sys.stdin)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
jax.distributed.initialize(address, num_processes=2, process_id=number, initialization_timeout=120)
names = {}
for block in program:
    exec(compile(block, "scaling.md", "exec"), names)
assert jax.process_count() == 2 and not names["losses"].is_fully_addressable
jax.distributed.shutdown()
"""


@pytest.mark.slow
def test_two_processes_run_the_page_on_scaling_and_agree(figures_here, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    logs = [(tmp_path / f"{number}.log").open("w+") for number in range(2)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, address, str(number)],
            stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, text=True, env=environment,
        )
        for number, log in enumerate(logs)
    ]  # fmt: skip
    try:
        for process in processes:
            process.stdin.write(json.dumps(SCALING))
            process.stdin.close()
        for process in processes:
            process.wait(timeout=300)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, log in zip(processes, logs, strict=True):
        log.seek(0)
        text = log.read()
        log.close()
        assert process.returncode == 0, text
        assert "devices: 8" in text
        figures = printed_figures(text)
        assert figures.keys() >= figures_here.keys()
        for label, value in figures_here.items():
            try:
                assert float(figures[label].split()[0]) == pytest.approx(float(value.split()[0]), rel=1e-5), label
            except ValueError:
                assert figures[label] == value
