"""Every one of Optax's 151 transformations, optimizers, wrappers, combinators and schedules is here, as what it is."""

import dataclasses
import importlib
import inspect
import json
import pathlib

import pytest

ENTRIES = json.loads((pathlib.Path(__file__).parent / "inventory.json").read_text())

# Functions, not classes, and why. The class that they make is still there.
FUNCTIONS = {
    "chain": "takes any number of transformations; the dataclass has one field for them",
    "named_chain": "takes any number of pairs; the dataclass has one field for them",
    "with_extra_args_support": "every transformation here takes extra arguments, so it has nothing to make",
    "inject_hyperparams": "returns a factory",
    "inject_stateful_hyperparams": "returns a factory",
}

# Fields of another kind than upstream's parameter suggests, and why.
EXCEPTIONS = {}


def ours(entry):
    module = importlib.import_module(entry["module"].replace("optax", "pytreeopt", 1))
    return getattr(module, entry["name"])


def ids(entry):
    return f"{entry['module'].removeprefix('optax').lstrip('.')}.{entry['name']}".lstrip(".")


def test_there_are_151():
    assert len(ENTRIES) == len({(entry["module"], entry["name"]) for entry in ENTRIES}) == 151


@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_exists_under_all_its_names(entry):
    thing = ours(entry)
    for path in entry["also"]:
        module, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(module.replace("optax", "pytreeopt", 1)), name) is thing, path


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry["name"] not in FUNCTIONS], ids=ids)
def test_is_the_class_with_those_fields(entry):
    thing = ours(entry)
    assert inspect.isclass(thing)
    assert thing.__name__ == entry["class"]
    assert getattr(importlib.import_module(thing.__module__), entry["class"]) is thing
    dynamic = {field.name for field in dataclasses.fields(thing) if field.metadata.get("pytree_node", True)}
    static = {field.name for field in dataclasses.fields(thing)} - dynamic
    expected = {name: kind for kind in ("dynamic", "static") for name in entry[kind]}
    expected |= EXCEPTIONS.get(entry["name"], {})
    assert dict.fromkeys(dynamic, "dynamic") | dict.fromkeys(static, "static") == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_functions(name):
    (entry,) = (entry for entry in ENTRIES if entry["name"] == name)
    assert inspect.isfunction(ours(entry))
