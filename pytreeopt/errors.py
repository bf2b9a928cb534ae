"""Errors that name the transformation, what it got, and the cure."""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import jax

SUPPORTED_OPTAX = ">=0.2.8,<0.3"


class TransformationError(Exception):
    """Base of the errors of `init` and `update`. The message starts with a verb; the names are put before it.

    As the error rises through nested transformations each adds its name, so that the text reads
    `Lion.update: AddDecayedWeights needs params, got None; call update(grads, state, params)`.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message
        self.path: tuple[str, ...] = ()
        self.method = ""

    def rise_through(self, owner: str, method: str) -> None:
        self.path = (owner, *self.path)
        self.method = method

    def __str__(self) -> str:
        if not self.path:
            return self.message
        outer, *inner = self.path
        place = f"{outer}.{self.method}" if self.method else outer
        return f"{place}: {' > '.join(inner)} {self.message}" if inner else f"{place} {self.message}"


class MissingParamsError(TransformationError, ValueError, TypeError):
    """`params` is None or left out. Both built-in types: Optax raises one or the other."""


class WrongStateError(TransformationError, ValueError, AttributeError):
    """The state is not what this transformation's `init` returned."""


class MissingStateError(WrongStateError, KeyError):
    """A mapping of states lacks a name."""

    __str__ = TransformationError.__str__  # KeyError's own would quote the message


class StructureError(TransformationError, ValueError):
    """Trees that must match do not."""


class ParamsDtypeError(TransformationError, TypeError):
    """Parameters whose dtype cannot hold what the transformation accumulates."""


class ComplexParamsError(ParamsDtypeError, ValueError):
    """Complex parameters where only real ones are possible. Also what Optax raises."""


class HyperparameterError(TransformationError, TypeError):
    """A hyperparameter of a type that the field cannot take."""


class HyperparameterNameError(TransformationError, TypeError, KeyError):
    """A name that no hyperparameter bears, or more than one. What an unknown keyword or key raises."""

    __str__ = TransformationError.__str__  # KeyError's own would quote the message


class OptionError(TransformationError, ValueError):
    """An option that is none of those on offer."""


class StepCountError(HyperparameterError, ValueError):
    """A number of steps that is not a whole number >= 1."""


class HyperparameterValueError(TransformationError, ValueError):
    """A hyperparameter that has no meaning, seen at use."""


class UnexpectedArgumentError(TransformationError, TypeError):
    """An extra argument of `update` that nobody takes."""


class MissingArgumentError(TransformationError, TypeError, ValueError):
    """An extra argument of `update` is missing. Both built-in types: Optax raises one or the other."""


class ParamsKindError(TransformationError, TypeError, AttributeError):
    """Parameters that lack the parts that this transformation works on. Optax raises AttributeError."""


class FunctionResultError(TransformationError, ValueError):
    """A function among the hyperparameters returned what cannot be used."""


def in_one_line(error: Exception, length: int = 200) -> str:
    """The text of JAX's error about two trees, for use inside a message."""
    text = " ".join(str(error).split()).rstrip(".")
    return text if len(text) <= length else text[:length] + "..."


def _population_hint(hyperparameters: Any) -> str:
    numbers, schedulable, _ = hyperparameters._number_fields
    for name in numbers + schedulable:
        shape = jax.numpy.shape(value) if hasattr(value := vars(hyperparameters)[name], "shape") else ()
        if shape:
            return f", whose {name} has shape {shape}: a population is trained by jax.vmap over it"
    return ""


def _is_python_number(x: Any) -> bool:
    return type(x) in (bool, int, float, complex)


def named(method: Callable[..., Any]) -> Callable[..., Any]:
    """Checks the hyperparameters' types before `init` or `update` and puts the class's name on errors."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        try:
            self._check_hyperparameters()
            return method(self, *args, **kwargs)
        except TransformationError as error:
            error.rise_through(type(self).__name__, "" if method.__name__ == "__call__" else method.__name__)
            raise
        except AttributeError as error:
            number = error.obj
            # A function of the user's may stumble over a number of its own: that is not for us to explain.
            if not _is_python_number(number) or not any(map(_is_python_number, jax.tree.leaves(args))):
                raise
            kind = ParamsKindError(
                f"needs arrays as leaves, got a Python {type(number).__name__}; give jax.tree.map(jnp.asarray, tree)"
            )
            kind.rise_through(type(self).__name__, method.__name__)
            raise kind from error
        except (TypeError, ValueError) as error:  # JAX's own, mostly, of shapes and structures that do not fit
            if not any(note.startswith("In ") for note in getattr(error, "__notes__", ())):
                error.add_note(f"In {type(self).__name__}.{method.__name__}{_population_hint(self)}.")
            raise

    return call


def unsupported_upstream(error: Exception) -> ImportError:
    """What to raise where the installed Optax lacks a name."""
    installed = importlib.metadata.version("optax")
    return ImportError(
        f"pytreeopt needs optax {SUPPORTED_OPTAX} with all the names of 0.2.8, got {installed} ({in_one_line(error)}); "
        "install optax==0.2.8"
    )


def require_params(params: Any) -> Any:
    """`params`, or the error that says how to pass them."""
    if params is None:
        raise MissingParamsError("needs params, got None; call update(grads, state, params)")
    return params


def require_state(state: Any, kind: type) -> Any:
    """`state`, if it is what `init` returned."""
    if not isinstance(state, kind):
        raise WrongStateError(
            f"needs the {kind.__name__} that its init returned, got {type(state).__name__}; "
            "pass the state of this very optimizer"
        )
    return state
