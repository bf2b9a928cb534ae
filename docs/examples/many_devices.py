"""One program on many devices: a population shared out, a large model in shards, a step written for each device.

JAX's own runtime does it all; an optimizer is a pytree and is placed like any other. Without accelerators the CPU
counts as eight devices here. Each part is compared with one device. The picture shows which device trained which member
of the population, and what each device keeps of the large model.
"""

import dataclasses
import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from matplotlib.figure import Figure
from tqdm import tqdm

import example_program
import pytreeopt as optax
from demo_report import BLUE, ORANGE, Report, plt
from demo_training import Digits, PyTree, Task, run_steps
from example_program import Setting
from pytreeopt import population as populations

init_population = jax.vmap(lambda optimizer, params: optimizer.init(params))
train_population = jax.jit(jax.vmap(run_steps, in_axes=(0, 0, 0, None)))


def mesh_of(axis: str) -> jax.sharding.Mesh:
    """All devices in a row. With explicit axes an array's sharding belongs to its type, and what is made like it,
    such as the optimizer's state, has the same."""
    return jax.make_mesh((jax.device_count(),), (axis,), axis_types=(AxisType.Explicit,))


def layers(width: int, seed: int) -> list[jax.Array]:
    """The parameters of a network of equally wide layers."""
    keys = jax.random.split(jax.random.key(seed), 4)
    return [jax.random.normal(key, (width, width)) / width**0.5 for key in keys]


def loss(params: list[jax.Array], batch: tuple[jax.Array, jax.Array], gather=lambda layer: layer) -> jax.Array:
    x, y = batch
    for layer in params:
        x = jnp.tanh(x @ gather(layer))
    return ((x - y) ** 2).mean()


@jax.jit
def step(params: PyTree, bound: optax.Bound, batch) -> tuple[PyTree, optax.Bound]:
    return bound.step(jax.grad(loss)(params, batch), params)


@jax.jit
def step_in_shards(params: PyTree, bound: optax.Bound, batch) -> tuple[PyTree, optax.Bound]:
    """As `step`; each layer is gathered when it is used, and its gradient comes back in shards."""
    gradient = jax.grad(loss)(params, batch, gather=lambda layer: jax.reshard(layer, P()))
    return bound.step(gradient, params)


def step_by_device(mesh: jax.sharding.Mesh):
    """As `step`, written for one device and its part of the batch; the others are met in `pmean`."""

    def step(params, bound, batch):
        mean_loss = lambda params: jax.lax.pmean(loss(params, batch), "data")
        return bound.step(jax.grad(mean_loss)(params), params)

    return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P(), P(), P("data")), out_specs=P()))


def train_in_shards(optimizers: optax.AdamW, task: Task, batches: Digits) -> jax.Array:
    """The losses on the way; optimizers, parameters and states all lie along one axis of devices."""
    mesh = mesh_of("population")
    with jax.set_mesh(mesh):
        optimizers = jax.device_put(optimizers, NamedSharding(mesh, P("population")))
        params = jax.device_put(populations.broadcast(task.params, populations.size(optimizers)), P("population"))
        states = jax.jit(init_population, out_shardings=P("population"))(optimizers, params)
        return train_population(optimizers, params, states, jax.device_put(batches, P()))[2]


def relative(a: PyTree, b: PyTree) -> float:
    """Norm of the difference over the norm."""
    a, b = (np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in jax.tree.leaves(tree)]) for tree in (a, b))
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def bytes_by_device(*trees: PyTree) -> np.ndarray:
    kept = dict.fromkeys(jax.devices(), 0)
    for leaf in jax.tree.leaves(trees):
        for shard in leaf.addressable_shards:
            kept[shard.device] += shard.data.nbytes
    return np.array(list(kept.values()))


@dataclasses.dataclass(frozen=True)
class Devices:
    """What each device did, and how it compares with one device."""

    rates: np.ndarray
    losses: np.ndarray  # the last of each member
    device: np.ndarray  # number of the device of each member
    kept_replicated: np.ndarray  # bytes of parameters and state by device
    kept_sharded: np.ndarray
    differences: dict[str, float]  # relative, from one device

    def table(self) -> list[tuple[str, ...]]:
        return [
            ("devices", f"{len(self.kept_sharded)}"),
            ("members", f"{len(self.losses)}"),
            *((f"relative difference, {name}", f"{value:.1e}") for name, value in self.differences.items()),
            ("parameters and state by device, replicated", f"{self.kept_replicated.max() / 2**20:.2f} MiB"),
            ("in shards", f"{self.kept_sharded.max() / 2**20:.2f} MiB"),
        ]

    def summary(self) -> str:
        ratio = self.kept_replicated.max() / self.kept_sharded.max()
        worst = max(self.differences.values())
        return f"each of {len(self.kept_sharded)} devices keeps 1/{ratio:.3g}; equal to one device within {worst:.1e}"

    def draw(self) -> Figure:
        figure, (members, memory) = plt.subplots(1, 2, figsize=(10, 4.2))
        colours = plt.get_cmap("tab10", len(self.kept_sharded))
        shown = members.scatter(self.rates, self.losses, c=self.device, cmap=colours, s=22)
        members.set(xlabel="learning rate", ylabel="training loss at the end (nats)", xscale="log", yscale="log")
        members.set_title("A population, by the device that trained it")
        count = np.arange(len(self.kept_sharded))
        figure.colorbar(shown, ax=members, label="device", ticks=count)
        shown.set_clim(-0.5, len(count) - 0.5)
        memory.bar(count - 0.2, self.kept_replicated / 2**20, width=0.4, color=ORANGE, label="replicated")
        memory.bar(count + 0.2, self.kept_sharded / 2**20, width=0.4, color=BLUE, label="in shards")
        memory.set(xlabel="device", ylabel="parameters and state (MiB)")
        memory.set_ylim(top=1.25 * self.kept_replicated.max() / 2**20)
        memory.set_title("A large model, by what each device keeps")
        memory.legend()
        return figure


def measure(seed: int, members: int = 64, steps: int = 100, width: int = 512) -> Devices:
    count = jax.device_count()
    members, width = (-(-x // count) * count for x in (members, width))  # multiples of the number of devices
    with tqdm(total=4, desc=f"{count} devices") as progress:
        task = Task.load(seed)
        batches = task.batches(steps, seed)
        rates = jnp.logspace(-4, -1, members)
        optimizers = optax.replace(populations.broadcast(optax.adamw(1e-3), members), learning_rate=rates)
        losses = train_in_shards(optimizers, task, batches)
        progress.update()

        params = populations.broadcast(task.params, members)
        alone = train_population(optimizers, params, init_population(optimizers, params), batches)[2]
        device = np.empty(members, int)
        for shard in losses.addressable_shards:
            device[shard.index[0]] = shard.device.id
        progress.update()

        x, y = jax.random.normal(jax.random.key(seed), (2, 8 * count, width))
        batch = x, jnp.tanh(y)
        params = layers(width, seed)
        optimizer = optax.as_arrays(optax.adamw(learning_rate=1e-3))
        expected = params, optax.bind(optimizer, params)
        for _ in range(3):
            expected = step(*expected, batch)
        progress.update()

        mesh = mesh_of("data")
        with jax.set_mesh(mesh):
            batch = jax.device_put(batch, P("data"))
            shards = jax.device_put(params, P("data"))
            in_shards = shards, jax.jit(optax.bind)(optimizer, shards)
            replicated = jax.device_put((params, optax.bind(optimizer, params)), P())
            by_device = step_by_device(mesh)
            for _ in range(3):
                in_shards = step_in_shards(*in_shards, batch)
                replicated = by_device(*replicated, batch)
        progress.update()
    return Devices(
        np.asarray(rates),
        np.asarray(losses)[:, -1],
        device,
        kept_replicated=bytes_by_device(replicated),
        kept_sharded=bytes_by_device(in_shards),
        differences={
            "losses of the population": relative(losses, alone),
            "large model in shards": relative(in_shards[0], expected[0]),
            "step written for each device": relative(replicated[0], expected[0]),
        },
    )


def main(arguments: Sequence[str] | None = None) -> Report:
    return example_program.run(
        "many_devices.py",
        __doc__,
        measure,
        arguments,
        members=Setting(64, 1, "members of the population, rounded up to a multiple of the devices"),
        steps=Setting(100, 1, "training steps of the population"),
        width=Setting(512, 1, "width of the large model's layers, rounded up likewise"),
    )


if __name__ == "__main__":
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        jax.config.update("jax_num_cpu_devices", 8)
    main()
