"""Rows of `pytreeopt.contrib`: privacy, GaLore, Sophia, Mechanic, Muon, SAM, schedule-free, complex parameters."""

import jax
import jax.numpy as jnp

from parity.row import NOT_FLOAT16, NOT_ONE_NUMBER, Loose, Row
from parity.rows.combinators import IN_A_BRANCH
from parity.rows.core import MASK, UNTRACED_SCHEDULE, falling, matrices
from parity.rows.simple import unseeded
from pytreeopt.states import GaLoreDimensionNumbers, MuonDimensionNumbers


def examples(params, gradients):
    """Gradients of four examples, of which some are clipped."""
    several = lambda g: jnp.stack([g, 0.01 * g, -0.5 * g, 0.1 * g + 0.02])
    return params, [jax.tree.map(several, gradient) for gradient in gradients]


def as_matrices(params, gradients):
    """A tree of matrices alone."""
    raised = lambda tree: jax.tree.map(jnp.atleast_2d, tree)
    return raised(params), [raised(gradient) for gradient in gradients]


def without_none(params, gradients):
    """Upstream's GaLore looks for a dtype in None."""

    def pruned(tree):
        if isinstance(tree, dict):
            return {name: pruned(child) for name, child in tree.items() if child is not None}
        return [pruned(child) for child in tree] if isinstance(tree, list) else tree

    return pruned(params), [pruned(gradient) for gradient in gradients]


def with_ranks(params, gradients):
    """Beside the matrices, leaves of rank 3 and 4."""
    params, gradients = without_none(params, gradients)

    def more(tree):
        kernel = tree["layers"][0]["kernel"]
        cube = jnp.stack([kernel, 0.3 * kernel[::-1]])
        cube = cube.at[1, 0, 0].multiply(3)
        return {"nested": tree, "cube": cube, "four": jnp.stack([cube, cube[:, ::-1] * 0.7], axis=2)}

    return more(params), [more(gradient) for gradient in gradients]


def galore_numbers(tree):
    """Of every leaf of rank 2 and of the cube."""
    by_rank = {2: GaLoreDimensionNumbers(1, 0), 3: GaLoreDimensionNumbers((0, 2), 1)}
    return jax.tree.map(lambda x: by_rank.get(x.ndim), tree)


def muon_numbers(tree):
    """Of every leaf of rank 2 or more; the axes that are not named are a batch."""
    by_rank = {
        2: MuonDimensionNumbers(1, 0),
        3: MuonDimensionNumbers(-1, (0, 1)),
        4: MuonDimensionNumbers((0,), (3, 2)),
    }
    return jax.tree.map(lambda x: by_rank.get(x.ndim), tree)


SOME = {"scalar": False, "vector": True, "layers": [{"kernel": True}, {}, {"kernel": False}]}
GALORE_TREE = {
    "nested": {
        "scalar": None,
        "vector": None,
        "layers": [{"kernel": GaLoreDimensionNumbers()}, {}, {"kernel": None}],
    },
    "cube": GaLoreDimensionNumbers(0, (1, -1)),
    "four": None,
}
MUON_PREFIX = {"nested": None, "cube": MuonDimensionNumbers(1, 2), "four": MuonDimensionNumbers((1, 0), (2, 3))}
MUON_TREE = {
    "scalar": MuonDimensionNumbers(),
    "vector": MuonDimensionNumbers(1, 0),
    "layers": [{"kernel": MuonDimensionNumbers(), "bias": None}, {}, {"kernel": MuonDimensionNumbers()}],
}


def squared(update, param):
    """A guess of the curvature."""
    return update * update


def every_matrix(tree):
    return jax.tree.map(lambda _: MuonDimensionNumbers(), tree)


TRIPLES = ((4.0, -6.0, 2.0), (3.5, -5.0, 2.0), (2.0, -1.5, 0.5))

CLIPS = "upstream clips, and complex numbers have no order"

ROWS = {
    "differentially_private_aggregate": Row(
        lambda o: o.contrib.differentially_private_aggregate(0.5, 0.1, 0), default=True, prepare=examples
    ),
    "differentially_private_aggregate, typed key": Row(
        lambda o: o.contrib.differentially_private_aggregate(1.0, 0.3, jax.random.key(5)), prepare=examples
    ),
    "differentially_private_aggregate, seed": Row(
        unseeded(lambda o: o.contrib.differentially_private_aggregate(0.5, 0.1, seed=3)), prepare=examples
    ),
    "differentially_private_aggregate, no key": Row(
        unseeded(lambda o: o.contrib.differentially_private_aggregate(0.5, 0.1)), prepare=examples
    ),
    "dpsgd": Row(unseeded(lambda o: o.contrib.dpsgd(1e-2, 0.5, 0.1, 0)), default=True, prepare=examples),
    "dpsgd, momentum": Row(unseeded(lambda o: o.contrib.dpsgd(1e-2, 0.5, 0.1, 3, momentum=0.9)), prepare=examples),
    "dpsgd, nesterov": Row(
        unseeded(lambda o: o.contrib.dpsgd(falling, 0.5, 0.1, 3, momentum=0.9, nesterov=True)), prepare=examples
    ),
    "scale_by_galore": Row(lambda o: o.contrib.scale_by_galore(2, 2), default=True, prepare=without_none),
    "scale_by_galore, base": Row(
        lambda o: o.contrib.scale_by_galore(2, 3, 0.5, o.chain(o.trace(0.9), o.scale_by_rms())),
        prepare=without_none,
    ),
    "scale_by_galore, default": Row(lambda o: o.contrib.scale_by_galore(), prepare=without_none),
    "scale_by_galore, tree": Row(
        lambda o: o.contrib.scale_by_galore(2, 2, weight_dimension_numbers=GALORE_TREE),
        trees=("nested",),
        prepare=with_ranks,
    ),
    "galore": Row(lambda o: o.contrib.galore(1e-2, rank=2, update_proj_gap=2), default=True, prepare=without_none),
    "galore, options": Row(
        lambda o: o.contrib.galore(falling, 1, 2, 0.25, o.scale_by_lion(), weight_decay=0.1, mask=SOME),
        trees=("nested",),
        prepare=without_none,
    ),
    "galore, all": Row(
        lambda o: o.contrib.galore(
            1e-2, 2, 2, weight_decay=0.1, mask=matrices, weight_dimension_numbers=GaLoreDimensionNumbers(1, 0)
        ),
        prepare=without_none,
    ),
    "galore, tree": Row(
        lambda o: o.contrib.galore(1e-2, 2, 2, weight_dimension_numbers=GALORE_TREE),
        trees=("nested",),
        prepare=with_ranks,
    ),
    "galore, function": Row(
        lambda o: o.contrib.galore(1e-2, 2, 2, weight_dimension_numbers=galore_numbers),
        trees=("nested",),
        prepare=with_ranks,
    ),
    "hutchinson_estimator_diag_hessian": Row(
        lambda o: o.contrib.hutchinson_estimator_diag_hessian(), ("obj_fn",), default=True
    ),
    "hutchinson_estimator_diag_hessian, key": Row(
        lambda o: o.contrib.hutchinson_estimator_diag_hessian(jax.random.PRNGKey(3)), ("obj_fn",)
    ),
    "sophia": Row(
        lambda o: o.contrib.sophia(1e-2),
        ("obj_fn",),
        default=True,
        no_gradient={"eps": "zero: the clip cuts off what eps alone divides, and a finite difference steps over that"},
        complex=False,
        why=CLIPS,
    ),
    "sophia, options": Row(
        lambda o: o.contrib.sophia(
            falling,
            0.8,
            0.9,
            1e-3,
            weight_decay=0.1,
            weight_decay_mask=MASK,
            gamma=0.5,
            clip_threshold=0.5,
            update_interval=2,
            mu_dtype="bfloat16",
        ),
        ("obj_fn",),
        complex=False,
        why=CLIPS,
        trees=("nested",),
    ),
    "sophia, unclipped": Row(
        lambda o: o.contrib.sophia(1e-2, eps=1e-2, gamma=1.0, clip_threshold=None, update_interval=1), ("obj_fn",)
    ),
    "sophia, estimator": Row(
        lambda o: o.contrib.sophia(
            1e-2,
            weight_decay=falling,
            weight_decay_mask=matrices,
            hessian_diagonal_fn=o.stateless_with_tree_map(squared),
            update_interval=2,
        ),
        complex=False,
        why=CLIPS,
    ),
    "mechanize": Row(lambda o: o.contrib.mechanize(o.sgd(1.0))),
    "mechanize, options": Row(lambda o: o.contrib.mechanize(o.adam(0.1), 0.1, 1e-4, 1e-2, 3), default=True),
    "mechanize, schedule": Row(lambda o: o.contrib.mechanize(o.sgd(falling, momentum=0.9), s_init=1e-3)),
    "mechanize, extra": Row(lambda o: o.contrib.mechanize(o.polyak_sgd(), weight_decay=0.0, s_init=1e-2), ("value",)),
    "scale_by_muon": Row(
        lambda o: o.contrib.scale_by_muon(ns_steps=2, weight_dimension_numbers=every_matrix),
        default=True,
        prepare=as_matrices,
        costly=True,
    ),
    "scale_by_muon, five steps": Row(
        lambda o: o.contrib.scale_by_muon(weight_dimension_numbers=every_matrix), prepare=as_matrices, costly=True
    ),
    "scale_by_muon, options": Row(
        lambda o: o.contrib.scale_by_muon(
            TRIPLES, 3, 0.9, 1e-3, "bfloat16", nesterov=False, adaptive=True, weight_dimension_numbers=MUON_TREE
        ),
        trees=("nested",),
        prepare=as_matrices,
        costly=True,
    ),
    "scale_by_muon, aol": Row(
        lambda o: o.contrib.scale_by_muon(preconditioning="aol", weight_dimension_numbers=every_matrix),
        prepare=as_matrices,
        costly=True,
    ),
    "muon": Row(lambda o: o.contrib.muon(1e-2), default=True, costly=True),
    "muon, dion": Row(lambda o: o.contrib.muon(1e-2, "dion"), costly=True),
    "muon, standard": Row(lambda o: o.contrib.muon(falling, "standard", 3), costly=True),
    "muon, triples": Row(lambda o: o.contrib.muon(1e-2, TRIPLES, 4), costly=True),
    "muon, options": Row(
        lambda o: o.contrib.muon(
            1e-2,
            (3.0, -4.0, 2.0),
            3,
            0.9,
            1e-4,
            0.1,
            MASK,
            "float32",
            nesterov=False,
            adaptive=True,
            adam_b1=0.8,
            adam_b2=0.9,
            adam_eps_root=1e-6,
            adam_weight_decay=0.1,
            adam_learning_rate=falling,
            consistent_rms=0.2,
        ),
        costly=True,
        trees=("nested",),
    ),
    "muon, spectral": Row(
        lambda o: o.contrib.muon(1e-2, preconditioning="spectral"),
        dtypes=("float32", "float64", "complex64"),
        why="JAX has no singular values in half precision",
        costly=True,
    ),
    "muon, aol": Row(lambda o: o.contrib.muon(1e-2, preconditioning="aol"), costly=True),
    "muon, aol, dion": Row(lambda o: o.contrib.muon(1e-2, "dion", preconditioning="aol"), costly=True),
    "muon, two rates": Row(lambda o: o.contrib.muon(1e-2, adam_learning_rate=2e-2), costly=True),
    "muon, schatten": Row(
        lambda o: o.contrib.muon(1e-2, preconditioning="schatten"),
        complex=False,
        why="upstream leaves the conjugate out and diverges",
        costly=True,
    ),
    "muon, function": Row(
        lambda o: o.contrib.muon(
            1e-2, weight_decay=0.1, weight_decay_mask=matrices, muon_weight_dimension_numbers=muon_numbers
        ),
        trees=("nested",),
        prepare=with_ranks,
        costly=True,
    ),
    "muon, prefix": Row(
        lambda o: o.contrib.muon(1e-2, muon_weight_dimension_numbers=MUON_PREFIX, consistent_rms=0.2),
        trees=("nested",),
        prepare=with_ranks,
        costly=True,
    ),
    "muon, schedules": Row(
        lambda o: o.contrib.muon(
            o.linear_schedule(1e-2, 1e-3, 5), weight_decay=falling, adam_weight_decay=falling, nesterov=False
        ),
        untraced=UNTRACED_SCHEDULE,
        costly=True,
    ),
    "sam": Row(
        lambda o: o.contrib.sam(o.sgd(1e-2), o.chain(o.contrib.normalize(), o.sgd(0.1))),
        default=True,
        trees=NOT_ONE_NUMBER,
    ),
    "sam, three": Row(
        lambda o: o.contrib.sam(o.adam(1e-2), o.adam(0.1), 3, reset_state=False),
        jit=Loose({"float16": 2e-3, "float64": 1e-15}, IN_A_BRANCH.reason),
    ),
    "sam, reset": Row(lambda o: o.contrib.sam(o.adamw(falling), o.sgd(0.1, momentum=0.9), 3), jit=IN_A_BRANCH),
    "sam, one": Row(lambda o: o.contrib.sam(o.adam(1e-2), o.sgd(0.1), 1), jit=IN_A_BRANCH),
    "sam, opaque": Row(
        lambda o: o.contrib.sam(
            o.sgd(1e-2, momentum=0.9), o.chain(o.contrib.normalize(), o.adam(0.1)), 3, opaque_mode=True
        ),
        ("grad_fn",),
        jit=Loose(1e-3, "the compiler keeps float32 between operations in a loop", ("float16",)),
    ),
    "sam, opaque, not reset": Row(
        lambda o: o.contrib.sam(o.adamw(1e-2), o.sgd(0.1, momentum=0.9), 2, False, opaque_mode=True), ("grad_fn",)
    ),
    "schedule_free": Row(lambda o: o.contrib.schedule_free(o.sgd(0.1), 0.1), default=True),
    "schedule_free, options": Row(
        lambda o: o.contrib.schedule_free(o.adam(falling, b1=0.0), falling, 0.8, 1.0, "float32"),
    ),
    "schedule_free, schedule": Row(
        lambda o: o.contrib.schedule_free(o.sgd(0.1), o.warmup_constant_schedule(0.0, 0.1, 3), 0.95),
        untraced=UNTRACED_SCHEDULE,
        dtypes=NOT_FLOAT16,
        why="a traced rate is rounded in float16, and the difference of averages cancels",
    ),
    "schedule_free_sgd": Row(lambda o: o.contrib.schedule_free_sgd(0.1), default=True),
    "schedule_free_sgd, options": Row(
        lambda o: o.contrib.schedule_free_sgd(0.1, 3, 0.8, 0.1, 1.0, "bfloat16"), untraced=UNTRACED_SCHEDULE
    ),
    "schedule_free_sgd, no warm-up": Row(
        lambda o: o.contrib.schedule_free_sgd(0.1, 0, 0.5), untraced=UNTRACED_SCHEDULE
    ),
    "schedule_free_adamw": Row(lambda o: o.contrib.schedule_free_adamw(1e-2), default=True),
    "schedule_free_adamw, options": Row(
        lambda o: o.contrib.schedule_free_adamw(1e-2, 3, 0.5, 0.9, 1e-4, 0.1, 1.0, "float32"),
        untraced=UNTRACED_SCHEDULE,
    ),
    "split_real_and_imaginary": Row(lambda o: o.contrib.split_real_and_imaginary(o.adam(1e-2)), default=True),
    "split_real_and_imaginary, real only": Row(
        lambda o: o.chain(o.contrib.split_real_and_imaginary(o.contrib.adopt(1e-2)), o.scale(2.0))
    ),
}
