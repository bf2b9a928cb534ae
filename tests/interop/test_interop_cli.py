"""Command lines and configurations that are built from the fields of a class."""

import pytest

import pytreeopt
from consumers import library

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(
    "cls, arguments, expected",
    [
        (pytreeopt.AdamW, "--learning-rate 3e-4 --b1 0.8", pytreeopt.adamw(3e-4, b1=0.8)),
        (pytreeopt.AdamW, "--learning-rate 3e-4 --nesterov", pytreeopt.adamw(3e-4, nesterov=True)),
        (pytreeopt.SGD, "--learning-rate 1 --momentum 0.9", pytreeopt.sgd(1.0, momentum=0.9)),
        (pytreeopt.AdamW, "--learning-rate 3e-4 --weight-decay 0", pytreeopt.adamw(3e-4, weight_decay=0.0)),
        (pytreeopt.Lion, "--learning-rate 1e-4 --b2 0.98", pytreeopt.lion(1e-4, b2=0.98)),
        (
            pytreeopt.CosineDecaySchedule,
            "--init-value 0.1 --decay-steps 100",
            pytreeopt.cosine_decay_schedule(0.1, 100.0),
        ),
    ],
)
def test_tyro(cls, arguments, expected):
    assert library("tyro").cli(cls, args=arguments.split()) == expected


def test_tyro_says_what_is_missing(capsys):
    with pytest.raises(SystemExit):
        library("tyro").cli(pytreeopt.AdamW, args=["--b1", "0.8"])
    assert "--learning-rate" in capsys.readouterr().err


def test_draccus():
    arguments = "--learning_rate 3e-4 --b1 0.8".split()
    assert library("draccus").parse(pytreeopt.AdamW, args=arguments) == pytreeopt.adamw(3e-4, b1=0.8)


def test_hydra():
    instantiate = library("hydra.utils").instantiate
    config = {
        "_target_": "pytreeopt.chain",
        "_convert_": "all",  # else Hydra makes configurations of dataclasses in a list
        "_args_": [
            {"_target_": "pytreeopt.clip_by_global_norm", "max_norm": 1.0},
            {
                "_target_": "pytreeopt.AdamW",
                "b1": 0.8,
                "learning_rate": {
                    "_target_": "pytreeopt.cosine_decay_schedule",
                    "init_value": 3e-4,
                    "decay_steps": 100,
                },
            },
        ],
    }
    rate = pytreeopt.cosine_decay_schedule(3e-4, 100)
    assert instantiate(config) == pytreeopt.chain(pytreeopt.clip_by_global_norm(1.0), pytreeopt.adamw(rate, b1=0.8))
