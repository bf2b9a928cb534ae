"""Rows of the aggregators. Their gradients have an axis of examples in front."""

import jax
import jax.numpy as jnp

from parity.row import Row


def per_example(params, gradients):
    """Four examples of every gradient."""
    return params, [jax.tree.map(lambda g: jnp.stack([g, 0.5 * g, -0.25 * g, 2 * g]), g) for g in gradients]


def on_a_grid(params, gradients):
    """Four examples along two axes."""
    _, gradients = per_example(params, gradients)
    return params, [jax.tree.map(lambda g: g.reshape(2, 2, *g.shape[1:]), g) for g in gradients]


def halved(updates, params):
    """A transformation of gradients per example."""
    return jax.tree.map(lambda g: 0.5 * g, updates)


SUM_SQ = "upstream's weight of a microbatch is float32, and its state becomes so"

ROWS = {
    "average_per_element_updates": Row(
        lambda o: o.experimental.aggregating.average_per_element_updates(), default=True, prepare=per_example
    ),
    "average_per_element_updates, two axes": Row(
        lambda o: o.experimental.aggregating.average_per_element_updates((0, 1)), prepare=on_a_grid
    ),
    "accumulate_avg_updates": Row(lambda o: o.experimental.aggregating.accumulate_avg_updates(2), default=True),
    "accumulate_avg_updates, one": Row(lambda o: o.experimental.aggregating.accumulate_avg_updates(1)),
    "average_incrementally_updates": Row(
        lambda o: o.experimental.aggregating.average_incrementally_updates(0, 2), default=True, prepare=per_example
    ),
    "average_incrementally_updates, no axis": Row(
        lambda o: o.experimental.aggregating.average_incrementally_updates(None, 3), default=True
    ),
    "track_per_element_mean_and_variance_with_ema": Row(
        lambda o: o.experimental.aggregating.track_per_element_mean_and_variance_with_ema(),
        extra=("sum_sq_diff_grads", "sample_size"),
        default=True,
    ),
    "process": Row(
        lambda o: o.experimental.aggregating.process(
            o.stateless(halved), o.experimental.aggregating.average_per_element_updates(), o.adam(1e-2)
        ),
        default=True,
        prepare=per_example,
        costly=True,
    ),
    "process, waiting": Row(
        lambda o: o.experimental.aggregating.process(
            o.scale(0.5), o.experimental.aggregating.accumulate_avg_updates(2), o.adam(1e-2)
        ),
        default=True,
        costly=True,
    ),
    "get_per_element_mean_and_sum_sq_diff_grads": Row(
        lambda o: o.experimental.aggregating.process(
            o.identity(),
            o.experimental.aggregating.get_per_element_mean_and_sum_sq_diff_grads(),
            o.experimental.aggregating.track_per_element_mean_and_variance_with_ema(0.8),
            aggregator_has_aux=True,
        ),
        default=True,
        prepare=per_example,
    ),
    "get_per_element_mean_and_sum_sq_diff_grads, two axes, waiting": Row(
        lambda o: o.experimental.aggregating.process(
            o.identity(),
            o.experimental.aggregating.get_per_element_mean_and_sum_sq_diff_grads((0, 1), 2),
            o.sgd(1e-2),
            True,
        ),
        prepare=on_a_grid,
        casts=True,
        why=SUM_SQ,
    ),
    "add_mean_variance_to_opt": Row(
        lambda o: o.experimental.aggregating.add_mean_variance_to_opt(o.adam(1e-2)),
        default=True,
        prepare=per_example,
        costly=True,
    ),
    "add_mean_variance_to_opt, waiting": Row(
        lambda o: o.experimental.aggregating.add_mean_variance_to_opt(o.sgd(1e-2), 0.8, accumulation_steps=2),
        prepare=per_example,
        casts=True,
        dtypes=("float32", "complex64", "float64"),
        why=f"{SUM_SQ}; in half precision it raises",
        costly=True,
    ),
    "add_mean_variance_to_opt, two axes": Row(
        lambda o: o.experimental.aggregating.add_mean_variance_to_opt(o.adam(1e-2), per_elt_axis=(0, 1)),
        prepare=on_a_grid,
        costly=True,
    ),
}
