"""Strategies for hypothesis: random optimizers, trees and gradients."""

import functools
import inspect
from typing import Any

import jax
import optax
from hypothesis import strategies as st

import pytreeopt
from parity.recipes import KINDS, Call, Case, Drawn, Leaf, Name, Pair, call
from parity.rows.combinators import by_rank, growing, high, norm, odd
from parity.rows.core import falling, matrices
from pytreeopt.base import AbstractHyperparameters

Strategy = st.SearchStrategy[Any]

STEPS = 3

# Not drawn: line searches need an objective, privacy a batch axis, GaLore, Sophia and Muon's direction a tree that
# fits; a measurement is no update; optimistic_adam warns. All have rows.
NOT_DRAWN = {
    "contrib.differentially_private_aggregate",
    "contrib.dpsgd",
    "contrib.galore",
    "contrib.hutchinson_estimator_diag_hessian",
    "contrib.scale_by_galore",
    "contrib.scale_by_muon",
    "contrib.sophia",
    "lbfgs",
    "measure_with_ema",
    "optimistic_adam",
    "scale_by_backtracking_linesearch",
    "scale_by_zoom_linesearch",
}
# A factory with one of these parameters is a wrapper, drawn apart.
CHILDREN = set("inner opt optimizer fast_optimizer base_optimizer transforms measures inner_factory tx f".split())
LEFT_OUT = {"seed", "muon_weight_dimension_numbers", "decay_rate_fn"}
INJECTED = ("adam", "adamw", "sgd", "scale", "lion", "rmsprop", "scale_by_trust_ratio", "add_decayed_weights")

of = st.sampled_from
unit = of([0.0, 0.5, 0.9, 0.999, 1.0]) | st.floats(0.0, 1.0)
tiny = of([0.0, 1e-16, 1e-8, 1e-3, 1.0]) | st.floats(1e-10, 1e-2)
decay = of([0, 0.0, 1e-4, 0.1, -0.1]) | st.floats(0.0, 0.5)
rate = of([1, 0.0, 1e-3, 0.1, 1.0, -0.1, 1e3]) | st.floats(1e-5, 1.0)
positive = of([1e-3, 0.5, 1.0, 2.0]) | st.floats(1e-3, 5.0)


def named(names: str, strategy: Strategy) -> dict[str, Strategy]:
    return dict.fromkeys(names.split(), strategy)


VALUES: dict[str, Strategy] = {
    **named("b1 b2 b3 beta beta3 decay rho momentum smooth_beta decay_rate alpha adam_b1 adam_b2", unit),
    **named("eps eps_root epsilon min_norm min_scale atol rtol adam_eps_root estim_lr0 reps_rel", tiny),
    **named("weight_decay weight_decay_rate adam_weight_decay f_min lower_bound", decay),
    **named("learning_rate step_size scale_factor scaling adam_learning_rate", rate),
    **named("mu_dtype accumulator_dtype state_dtype", of([None, "float32", "bfloat16", "float16"])),
    **named("param_dtype dtype_momentum", of(["float32", "bfloat16"])),
    **named("decay_offset step_offset", of([-3, 0, 2])),
    "accumulation_size": of([1, 2]),
    "axis": of([None, -1, 0]),
    "betas": st.tuples(unit, unit),
    "clip_value_fn": st.just(growing),
    "consistent_rms": st.none() | positive,
    "cooldown": of([0, 1]),
    "factor": of([0.1, 0.5]),
    "init_estim_sq_dist": st.none() | positive,
    "init_step": st.tuples(of(["distance", "learning_rate", "heuristic"]), positive),
    "k": of([1, 2, 3]),
    "key": of([0, 1]),
    "measure": st.just(norm),
    "measure_name": st.just("norm"),
    "memory_size": of([1, 2, 4]),
    "min_dim_size_to_factor": of([1, 2, 128]),
    "mode": of(["hard", "smooth", "refined"]),
    "ns_coeffs": of(["standard", "dion", (2.0, -1.5, 0.5)]),
    "ns_steps": of([1, 2]),
    "patience": of([1, 2]),
    "preconditioning": of(["frobenius", "spectral", "aol"]),
    "variant": of(["sps", "sps+"]),
    "warmup_steps": of([None, 0, 1, 3]),
}

keys = of("abc")
lengths = of([0, 1, 2, 3, 5]) | st.floats(0.5, 5.0)
counts = of([0, 1, 3])


@functools.cache
def simple() -> dict[str, tuple[type, inspect.Signature]]:
    """Path of every transformation without children -> our class and upstream's signature."""
    found = {}
    for prefix, ours, theirs in (("", pytreeopt, optax), ("contrib.", pytreeopt.contrib, optax.contrib)):
        for name, cls in vars(ours).items():
            factory = vars(theirs).get(name)
            if inspect.isclass(cls) and issubclass(cls, AbstractHyperparameters) and inspect.isfunction(factory):
                signature = inspect.signature(factory)
                if issubclass(cls, optax.GradientTransformation) and not set(signature.parameters) & CHILDREN:
                    found[prefix + name] = cls, signature
    return {path: pair for path, pair in found.items() if path not in NOT_DRAWN}


@st.composite
def leaves(draw, dtypes: Strategy) -> Leaf:
    shape = draw(of([(), (3,), (2, 3), (1,), (0,), (2, 0, 3)]))
    return Leaf(shape, draw(dtypes))


def trees(dtypes: Strategy) -> Strategy:
    """A tree of parameters: any container, empty ones and None too."""
    leaf = leaves(dtypes)
    return st.recursive(
        leaf | st.none(),
        lambda node: (
            st.dictionaries(keys, node, max_size=3)
            | st.lists(node, max_size=2)
            | st.tuples(node, node)
            | st.builds(Pair, node, node)
        ),
        max_leaves=4,
    ) | st.fixed_dictionaries({"a": leaf, "b": leaf})


def like(tree: Any, values: Strategy) -> Strategy:
    """A tree of `values` in the structure of `tree`, or in a part of it from the root."""

    @st.composite
    def choose(draw, node: Any) -> Any:
        if isinstance(node, Leaf) or (node is not None and draw(st.integers(0, 5)) == 0):
            return draw(values)
        if isinstance(node, dict):
            return {name: draw(choose(child)) for name, child in node.items()}
        if isinstance(node, Pair):
            return Pair(*(draw(choose(child)) for child in node))
        if isinstance(node, list | tuple):
            return type(node)(draw(choose(child)) for child in node)
        return None

    return choose(tree)


def mask_trees(tree: Any) -> Strategy:
    return st.booleans() | like(tree, st.booleans())


def masks(tree: Any) -> Strategy:
    return st.just(matrices) | mask_trees(tree)


def schedules() -> Strategy:
    """Schedules whose changes fall into the first few steps."""
    simple = st.one_of(
        st.just(falling),
        st.builds(lambda x: call("constant_schedule", x), rate),
        st.builds(lambda *a: call("linear_schedule", *a), rate, rate, lengths, counts),
        st.builds(lambda *a: call("polynomial_schedule", *a), rate, rate, of([1, 2, 0.5, 1.5]), lengths, counts),
        st.builds(lambda x, n, a, p: call("cosine_decay_schedule", x, n, a, p), rate, lengths, unit, of([1.0, 2.0])),
        st.builds(
            lambda x, n, r, b, s, e: call("exponential_decay", x, n, r, b, s, e),
            rate,
            lengths,
            unit,
            counts,
            st.booleans(),
            st.none() | rate,
        ),
        st.builds(lambda a, b, n: call("warmup_constant_schedule", a, b, n), rate, rate, counts),
        st.builds(
            lambda a, b, w, n, e: call("warmup_cosine_decay_schedule", a, b, w, w + n, e),
            rate,
            rate,
            counts,
            of([1, 2, 3]),
            rate,
        ),
        st.builds(
            lambda a, b, w, n, r, s: call("warmup_exponential_decay_schedule", a, b, w, n, r, 0, s),
            rate,
            rate,
            counts,
            of([1, 2]),
            unit,
            st.booleans(),
        ),
        st.builds(lambda n, x: call("cosine_onecycle_schedule", n, x), of([1, 2, 4]), rate),
        st.builds(lambda n, x: call("linear_onecycle_schedule", n, x), of([1, 2, 4]), rate),
        st.builds(
            lambda x, scales: call("piecewise_constant_schedule", x, scales),
            rate,
            st.dictionaries(of([1, 2, 3]), unit, max_size=2),
        ),
        st.builds(
            lambda kind, x, scales: call("piecewise_interpolate_schedule", kind, x, scales),
            of(["linear", "cosine"]),
            rate,
            st.dictionaries(of([1, 2, 3]), unit, max_size=2),
        ),
    )
    return simple | st.builds(lambda a, b, n: call("join_schedules", [a, b], [n]), simple, simple, of([1, 2]))


@st.composite
def transformations(draw, tree: Any) -> Call:
    """One transformation with some of its options."""
    path = draw(of(sorted(simple())))
    cls, signature = simple()[path]
    kwargs = {}
    for name, parameter in signature.parameters.items():
        required = parameter.default is parameter.empty
        if name not in LEFT_OUT and (required or name == "key" or draw(st.integers(0, 2)) == 0):
            kwargs[name] = draw(values(cls, name, parameter.default, tree))
    return call(path, **kwargs)


def values(cls: type, name: str, default: Any, tree: Any) -> Strategy:
    """Values of a parameter."""
    if name == "step_size_fn":
        return schedules()
    if "mask" in name:
        return masks(tree)
    if name in VALUES:
        found = VALUES[name]
    elif isinstance(default, bool):
        found = st.booleans()
    else:
        found = positive
    return found | schedules() if name in getattr(cls, "_schedulable_fields", ()) else found


def wrapped(inner: Strategy, tree: Any) -> Strategy:
    """Every combinator and wrapper around `inner`."""
    label = of("ab")
    partition = lambda a, b, labels: call("partition", {"a": a, "b": b}, labels)
    by_function = lambda a, b: call("partition", {"matrix": a, "rest": b}, by_rank)
    return st.one_of(
        st.builds(lambda members: call("chain", *members), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda members: call("chain", *members), st.lists(inner, min_size=2, max_size=3)),
        st.builds(
            lambda members: call("named_chain", *members.items()),
            st.dictionaries(of("zax"), inner, min_size=1, max_size=3),
        ),
        st.builds(partition, inner, inner, label | like(tree, label)),
        st.builds(by_function, inner, inner),
        st.builds(lambda tx, mask: call("masked", tx, mask), inner, masks(tree)),
        st.builds(lambda tx, mask: call("selective_transform", tx, freeze_mask=mask), inner, mask_trees(tree)),
        st.builds(lambda tx, n: call("apply_if_finite", tx, n), inner, of([0, 1, 5])),
        st.builds(lambda tx: call("conditionally_mask", tx, odd), inner),
        st.builds(lambda tx: call("conditionally_transform", tx, odd), inner),
        st.builds(lambda tx: call("conditionally_mask", tx, high, forward_extra_args=True), inner),
        st.builds(lambda tx: call("conditionally_transform", tx, high, forward_extra_args=True), inner),
        st.builds(lambda tx: call("flatten", tx), inner),
        st.builds(
            lambda tx, k, mean: call("MultiSteps", tx, k, mean), inner, of([1, 2, 3]) | st.just(growing), st.booleans()
        ),
        st.builds(
            lambda tx, dtype: call("MultiSteps", tx, 2, accumulator_dtype=dtype),
            inner,
            of(["bfloat16", "float16", "complex64"]),
        ),
        st.builds(
            lambda tx: call("MultiSteps", tx, 2, should_skip_update_fn=Name("skip_not_finite")),
            inner,
        ),
        st.builds(
            lambda tx, d: call("monitor", {"z": norm, "ema": call("measure_with_ema", norm, d), "tx": tx}), inner, unit
        ),
        st.builds(
            lambda tx, *options: call("contrib.schedule_free", tx, *options), inner, rate | schedules(), unit, positive
        ),
        st.builds(lambda tx, w, s: call("contrib.mechanize", tx, w, s_init=s), inner, decay, tiny),
        st.builds(lambda tx, adv, n, r: call("contrib.sam", tx, adv, n, r), inner, inner, of([1, 2, 3]), st.booleans()),
        st.builds(lambda tx: call("contrib.split_real_and_imaginary", tx), inner),
        st.builds(lambda tx: call("with_extra_args_support", tx), inner),
    )


@st.composite
def injected(draw) -> Call:
    """Hyperparameters in the state."""
    name = draw(of(INJECTED))
    cls, signature = simple()[name]
    kwargs = {}
    for parameter in signature.parameters.values():
        numeric = isinstance(parameter.default, float) or parameter.default is parameter.empty
        if numeric and (parameter.default is parameter.empty or draw(st.booleans())):
            kwargs[parameter.name] = draw(values(cls, parameter.name, parameter.default, None) | schedules())
    return Call(call("inject_hyperparams", Name(name)), (), kwargs)


def optimizers(tree: Any) -> Strategy:
    inner = transformations(tree)
    # In half precision upstream's injected numbers round or widen the arithmetic, where ours count as Python numbers.
    if not any(leaf.dtype in ("bfloat16", "float16") for leaf in jax.tree.leaves(tree)):
        inner = inner | injected()
    return st.recursive(inner, lambda node: wrapped(node, tree), max_leaves=2)


@st.composite
def cases(draw) -> Case:
    """An optimizer, parameters that its masks fit, and gradients for a few steps."""
    dtypes = draw(
        of(
            [
                st.just("float32"),
                st.just("float32"),
                of(["float32", "bfloat16"]),
                of(["float32", "float16"]),
                st.just("bfloat16"),
                st.just("float16"),
                of(["float32", "complex64"]),
            ]
        )
    )
    tree = draw(trees(dtypes).filter(lambda tree: tree is not None))  # params=None says that there are none
    recipe = draw(optimizers(tree))
    paired = draw(st.integers(0, 9)) == 0
    if paired:
        recipe = call("lookahead", recipe, draw(of([1, 2, 3])), draw(unit), reset_state=draw(st.booleans()))
    params = draw(of(["ordinary", "ordinary", "zeros", "small", "large"]))
    often = ["ordinary", "ordinary", "zeros", *KINDS]
    gradients = tuple(draw(of(often)) for _ in range(STEPS))
    return Case(recipe, Drawn(tree, params, gradients, draw(st.integers(0, 99)), paired))
