"""Rows of the line searches and of L-BFGS."""

from parity.row import Loose, Row

LOOP = "a loop of unknown length"
COMPARED = "zero: enters comparisons only; below 0 no step can pass them, so that differences jump"
STEEP = Loose(
    {"float32": 1e-6, "float64": 1e-15},
    "in JAX 0.12 the compiler contracts products of the fourth power's gradient as each loop lets it",
)
# Upstream seeds the gradient of the value with a float32 one.
STORES_GRAD = {"dtypes": ("float32", "complex64", "float64"), "why": "with store_grad upstream refuses a half value"}


def descent(objective, build, **traits):
    """Gradient descent behind which a line search stands."""
    return Row(lambda o: o.chain(o.sgd(1.0), build(o)), objective=objective, forward_only=LOOP, **traits)


ROWS = {
    "scale_by_backtracking_linesearch": descent(
        "quadratic",
        lambda o: o.scale_by_backtracking_linesearch(15),
        default=True,
        no_gradient={"transforms.1.atol": COMPARED, "transforms.1.rtol": COMPARED},
        costly=True,
    ),
    "scale_by_backtracking_linesearch, uphill": Row(
        lambda o: o.scale_by_backtracking_linesearch(3, store_grad=True),
        objective="quadratic",
        **STORES_GRAD,
        costly=True,
    ),
    "scale_by_backtracking_linesearch, options": descent(
        "logistic",
        lambda o: o.scale_by_backtracking_linesearch(15, 0.1, 0.5, 2.0, 4.0, 1e-6, 1e-6, store_grad=True),
        **STORES_GRAD,
        costly=True,
    ),
    "scale_by_backtracking_linesearch, rosenbrock": descent(
        "rosenbrock", lambda o: o.scale_by_backtracking_linesearch(30, store_grad=True), **STORES_GRAD, costly=True
    ),
    "scale_by_backtracking_linesearch, zakharov": descent(
        "zakharov", lambda o: o.scale_by_backtracking_linesearch(40, increase_factor=float("inf")), costly=True
    ),
    "scale_by_backtracking_linesearch, few steps": descent(
        "rosenbrock", lambda o: o.scale_by_backtracking_linesearch(2), costly=True
    ),
    "scale_by_backtracking_linesearch, no steps": descent(
        "rosenbrock", lambda o: o.scale_by_backtracking_linesearch(0, store_grad=True), **STORES_GRAD, costly=True
    ),
    "scale_by_backtracking_linesearch, not finite": descent(
        "not_finite", lambda o: o.scale_by_backtracking_linesearch(4, store_grad=True), **STORES_GRAD, costly=True
    ),
    "scale_by_backtracking_linesearch, float32 value": descent(
        "float32_quadratic", lambda o: o.scale_by_backtracking_linesearch(15), costly=True
    ),
    "scale_by_zoom_linesearch": descent(
        "quadratic",
        lambda o: o.scale_by_zoom_linesearch(15),
        default=True,
        no_gradient={"transforms.1.tol": COMPARED},
        costly=True,
    ),
    "scale_by_zoom_linesearch, uphill": Row(
        lambda o: o.scale_by_zoom_linesearch(3), objective="quadratic", costly=True
    ),
    "scale_by_zoom_linesearch, rosenbrock": descent(
        "rosenbrock", lambda o: o.scale_by_zoom_linesearch(30), costly=True
    ),
    "scale_by_zoom_linesearch, zakharov": descent(
        "zakharov", lambda o: o.scale_by_zoom_linesearch(30), loop=STEEP, costly=True
    ),
    "scale_by_zoom_linesearch, options": descent(
        "logistic",
        lambda o: o.scale_by_zoom_linesearch(10, 20.0, 1e-6, 3.0, 1e-2, 0.1, None, 1e-3, "one"),
        dtypes=("float32", "float64", "complex64"),
        why="in a loop the compiler keeps some values of an objective in half precision in float32, as it fuses",
        costly=True,
    ),
    "scale_by_zoom_linesearch, small limit": descent(
        "logistic", lambda o: o.scale_by_zoom_linesearch(10, max_learning_rate=0.1), costly=True
    ),
    "scale_by_zoom_linesearch, few steps": descent("rosenbrock", lambda o: o.scale_by_zoom_linesearch(2), costly=True),
    "scale_by_zoom_linesearch, not finite": descent("not_finite", lambda o: o.scale_by_zoom_linesearch(4), costly=True),
    "scale_by_zoom_linesearch, float32 value": descent(
        "float32_quadratic", lambda o: o.scale_by_zoom_linesearch(15), costly=True
    ),
    "scale_by_lbfgs": Row(lambda o: o.scale_by_lbfgs(3), default=True, costly=True),
    "scale_by_lbfgs, chained": Row(
        lambda o: o.chain(o.scale_by_lbfgs(3), o.scale(-0.1)), objective="quadratic", costly=True
    ),
    "scale_by_lbfgs, unscaled": Row(lambda o: o.scale_by_lbfgs(3, False), costly=True),
    "lbfgs": Row(
        lambda o: o.lbfgs(),
        objective="quadratic",
        forward_only=LOOP,
        default=True,
        no_gradient={"linesearch.tol": COMPARED},
        costly=True,
    ),
    "lbfgs, rosenbrock": Row(lambda o: o.lbfgs(), objective="rosenbrock", forward_only=LOOP, costly=True),
    "lbfgs, zakharov": Row(lambda o: o.lbfgs(0.7, 2), objective="zakharov", forward_only=LOOP, loop=STEEP, costly=True),
    "lbfgs, logistic": Row(
        lambda o: o.lbfgs(None, 4, False, o.scale_by_backtracking_linesearch(20, store_grad=True)),
        objective="logistic",
        forward_only=LOOP,
        **STORES_GRAD,
        costly=True,
    ),
    "lbfgs, no search": Row(lambda o: o.lbfgs(1e-2, linesearch=None), objective="quadratic", costly=True),
    "lbfgs, schedule": Row(
        lambda o: o.lbfgs(lambda t: 0.1 / (1 + t), linesearch=None), objective="logistic", costly=True
    ),
}
