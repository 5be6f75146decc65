"""What the `entrypoint` of an experiment starts."""

from __future__ import annotations

import pytest

from mlcheck.experiment.launch import Launch, launched

LAYER = "python3 -m determined.launch.torch_distributed"


@pytest.mark.parametrize(
    ("entrypoint", "expected"),
    [
        ("model_def:Trial", Launch("model_def:Trial")),
        (" package.trial:Trial ", Launch("package.trial:Trial")),
        ("python3 train.py", Launch("train.py")),
        ("python -u src/train.py --lr 0.1 --name 'a b'", Launch("src/train.py", ("--lr", "0.1", "--name", "a b"))),
        ("/opt/conda/bin/python3.11 train.py", Launch("train.py")),
        ("python3 -m package.train --epochs 3", Launch("package.train", ("--epochs", "3"))),
        (["python3", "train.py", 3], Launch("train.py", ("3",))),
        (f"{LAYER} python3 train.py --lr 1", Launch("train.py", ("--lr", "1"))),
        (f"{LAYER} --nnodes 2 -- python3 train.py", Launch("train.py")),
        (f"{LAYER} --nproc-per-node=2 train.py --lr 1", Launch("train.py", ("--lr", "1"))),
        (f"{LAYER} --trial model_def:Trial", Launch("model_def:Trial")),
        (f"{LAYER} -- --trial model_def:Trial", Launch("model_def:Trial")),
        (f"{LAYER} python3 -m package.train", Launch("package.train")),
        ("OMP_NUM_THREADS=1 python3 train.py", Launch("train.py")),
        ("python3 train.py --lr 1 | tee log", Launch("train.py", ("--lr", "1"))),
        ("python3 train.py --data $DATA > log", Launch("train.py", ("--data", "$DATA"))),
        ("pip install -r requirements.txt && python3 train.py", Launch("train.py")),
    ],
)
def test_a_trial_or_a_program(entrypoint: object, expected: Launch) -> None:
    assert launched(entrypoint) == expected


@pytest.mark.parametrize(
    "entrypoint",
    [
        *(None, 3, [], {}, "", "sh train.sh", "bash -c 'python3 train.py'", "python3", "python3 -m", "python3 -c 'x'"),
        *("python3 'train.py", "deepspeed train.py", "| python3 train.py"),
        *(f"{LAYER}", f"{LAYER} --trial", f"{LAYER} --trial model_def", f"{LAYER} sh train.sh", "train", "a:b:c"),
    ],
)
def test_another_command_is_none(entrypoint: object) -> None:
    assert launched(entrypoint) == Launch()
