"""The promises that can be read off the source: names, signatures, floors, docstrings, no delegation."""

import ast
import dataclasses
import importlib
import inspect
import pathlib
import types
import typing

import jax
import optax
import pytest

import pytreeopt
from pytreeopt.base import AbstractHyperparameters, AbstractSchedule, FunctionPair, GradientTransformation

PACKAGE = pathlib.Path(pytreeopt.__file__).parent
SOURCES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
NAMESPACES = (
    "assignment",
    "contrib",
    "losses",
    "microbatching",
    "perturbations",
    "projections",
    "schedules",
    "second_order",
    "transforms",
    "tree",
    "tree_utils",
)

# Lower floors first; a module imports from its own floor or from a lower one.
FLOORS = (
    ("errors", "annotations", "fields", "equality", "upstream_pair", "states"),
    ("base", "leafwise"),
    ("numerics",),
    ("schedules",),
    ("combinators",),
    ("transforms",),
    ("linesearch",),
    ("optimizers",),
    ("contrib", "experimental"),
    ("_classes", "_paths", "_counts", "_hyperparams", "_registry", "_config", "population", "bound"),
    ("interop",),
)
RE_EXPORTS = {"transforms/__init__.py", "schedules/__init__.py", "__init__.py"}  # upstream's namespaces cross floors


def classes():
    """Every hyperparameter class of the package."""
    found, stack = set(), [AbstractHyperparameters]
    while stack:
        for cls in stack.pop().__subclasses__():
            if cls not in found and cls.__module__.startswith("pytreeopt"):
                found.add(cls)
                stack.append(cls)
    return sorted(found, key=lambda cls: cls.__qualname__)


def is_abstract(cls):
    return cls.__name__.lstrip("_").startswith("Abstract") or cls is GradientTransformation


CONCRETE = [cls for cls in classes() if not is_abstract(cls)]
PUBLIC = [cls for cls in CONCRETE if not cls.__name__.startswith("_")]


def transformation_names(namespace):
    """Upstream's names that make something which is ours: those whose counterpart here is not upstream's object."""
    ours = namespace_of(pytreeopt, namespace)
    theirs = namespace_of(optax, namespace)
    for name in dir(theirs):
        thing, own = getattr(theirs, name), getattr(ours, name, None)
        if not name.startswith("_") and callable(thing) and own is not None and own is not thing:
            yield name, own, thing


def namespace_of(package, name):
    return getattr(package, name) if name else package


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_namespaces_can_be_imported_by_path(namespace):
    assert importlib.import_module(f"pytreeopt.{namespace}") is getattr(pytreeopt, namespace)


@pytest.mark.parametrize("namespace", ["", *NAMESPACES])
def test_a_name_is_ours_or_upstreams_own_object(namespace):
    ours, theirs = namespace_of(pytreeopt, namespace), namespace_of(optax, namespace)
    for name in dir(theirs):
        thing, own = getattr(theirs, name), getattr(ours, name, None)
        if name.startswith("_") or isinstance(thing, types.ModuleType) or own is None or own is thing:
            continue
        assert own.__module__.startswith("pytreeopt"), name
        assert getattr(pytreeopt, name, own) is own, name


@pytest.mark.parametrize("namespace", ["", *NAMESPACES])
def test_signatures_are_upstreams(namespace):
    for name, own, thing in transformation_names(namespace):
        if inspect.isclass(thing) and thing.__module__.startswith("optax") and issubclass(thing, tuple):
            continue  # the pair itself
        ours, theirs = inspect.signature(own), inspect.signature(thing)
        assert [p.name for p in ours.parameters.values()] == [p.name for p in theirs.parameters.values()], name
        for p, q in zip(ours.parameters.values(), theirs.parameters.values(), strict=True):
            assert p.kind == q.kind, (name, p)
            if callable(q.default) and not isinstance(q.default, type):
                assert callable(p.default), (name, p, q)
            elif isinstance(q.default, optax.GradientTransformation):
                assert isinstance(p.default, GradientTransformation), (name, p, q)
            else:
                assert type(p.default) is type(q.default), (name, p, q)
                assert p.default is q.default or p.default == q.default, (name, p, q)


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_classes_are_final_and_frozen(cls):
    assert getattr(cls, "__final__", False), "wear @final"
    assert cls.__dataclass_params__.frozen
    assert cls._flax_dataclass
    assert getattr(importlib.import_module(cls.__module__), cls.__name__) is cls


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_docstring_args_are_the_fields(cls):
    text = inspect.getdoc(cls)
    assert text, "no docstring"
    summary = text.splitlines()[0]
    assert summary.endswith("."), summary
    section = text.partition("Args:\n")[2].partition("\n\n")[0]
    indent = "    "
    listed = [
        line.strip().partition(":")[0]
        for line in section.splitlines()
        if line.startswith(indent) and not line.startswith(indent * 2)
    ]
    assert listed == [field.name for field in dataclasses.fields(cls)]


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_annotations_of_numbers_are_resolved(cls):
    """An annotation that cannot be resolved would switch the check of hyperparameters off."""
    assert set(typing.get_type_hints(cls)) >= {field.name for field in dataclasses.fields(cls)}
    if issubclass(cls, GradientTransformation):
        assert set(cls._number_fields.numbers).isdisjoint(cls._number_fields.schedulable)
        for field in dataclasses.fields(cls):
            if field.type is bool:
                assert not field.metadata.get("pytree_node", True), f"{field.name}: a bool is static"


def imports(path):
    """Modules imported anywhere in a file, with the names taken from each."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from ((node.module, alias.name) for alias in node.names)


def floor(module):
    parts = module.removeprefix("pytreeopt.").split(".")
    for height, names in enumerate(FLOORS):
        if parts[0] in names:
            return height
    return len(FLOORS)


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in RE_EXPORTS])
def test_imports_come_from_lower_floors(name):
    own = floor("pytreeopt." + name.removesuffix(".py").replace("/", "."))
    for module, imported in imports(SOURCES[name]):
        if module == "pytreeopt":
            module = f"pytreeopt.{imported}"
        if module.startswith("pytreeopt."):
            assert floor(module) <= own, f"{name} imports {module}"


MAKERS = ("", "schedules.", "transforms.", "contrib.", "experimental.aggregating.")  # optax.tree.scale is a function


def factories():
    """Upstream's functions that make a transformation or a schedule."""
    found = {
        name
        for namespace in ("", "schedules", "transforms", "contrib")
        for name, own, _ in transformation_names(namespace)
    }
    return found - {"GradientTransformation", "GradientTransformationExtraArgs"}


@pytest.mark.parametrize("name", list(SOURCES))
def test_nothing_delegates_to_upstreams_factories(name):
    forbidden = factories()
    tree = ast.parse(SOURCES[name].read_text())
    for module, imported in imports(SOURCES[name]):
        if module.split(".")[0] == "optax":
            assert imported not in forbidden, f"{name} imports {module}.{imported}"
            private = any(part.startswith("_") for part in module.split("."))
            assert not private or name == "states.py", f"{name} looks into {module}"
    makers = {f"optax.{space}{maker}" for space in MAKERS for maker in forbidden}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) not in makers, f"{name} uses {ast.unparse(node)}"


def test_no_stubs_and_no_workplace():
    for name, path in SOURCES.items():
        text = path.read_text()
        assert "NotImplementedError" not in text, name
        assert "from __future__ import annotations" not in text, f"{name}: annotations are read at run time"


def test_upstreams_objects_pass_for_ours_and_ours_for_upstreams():
    theirs, ours = optax.adam(1e-3), pytreeopt.adam(1e-3)
    assert isinstance(theirs, pytreeopt.GradientTransformation)
    assert not isinstance(theirs, pytreeopt.Adam)
    assert isinstance(ours, optax.GradientTransformationExtraArgs)
    assert not isinstance(3, pytreeopt.GradientTransformation)
    assert pytreeopt.GradientTransformationExtraArgs is pytreeopt.GradientTransformation
    assert isinstance(pytreeopt.constant_schedule(1.0), AbstractSchedule)


def test_a_pair_of_functions_constructs():
    init, update = pytreeopt.adam(1e-3)
    pair = pytreeopt.GradientTransformation(init, update)
    assert isinstance(pair, FunctionPair)
    assert (pair.init, pair.update) == (init, update) == tuple(pair)
    assert pytreeopt.GradientTransformation(init=init, update=update) == pair
    assert jax.tree.leaves(pair) == []
    with pytest.raises(TypeError, match="update"):
        pytreeopt.GradientTransformation(init)


@pytest.mark.parametrize(
    "cls", [cls for cls in classes() if inspect.isabstract(cls) and cls is not GradientTransformation]
)
def test_abstract_classes_cannot_be_made(cls):
    with pytest.raises(TypeError, match="abstract"):
        cls()
