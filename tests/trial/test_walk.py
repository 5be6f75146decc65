"""Whatever a user's step writes to is found: globals, classes, slots, defaults, attributes of tensors, modes."""

from __future__ import annotations

import math
import sys
import types
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from mlcheck.trial.sandbox import differences, restored, snapshot
from mlcheck.trial.trial import Trial

STEPS = 0
HISTORY: list[int] = []
RUNNING = np.zeros(3)


class Slotted:
    __slots__ = ("count", "seen")

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[int] = []


class Counting(nn.Module):
    passes = 0

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Counting.passes += 1
        return self.layer(x)  # type: ignore[no-any-return]


class Reading(Dataset[int]):
    def __init__(self) -> None:
        self.reads = 0
        self.file: object = None
        self.cache: dict[int, int] = {}

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        self.reads += 1
        self.file = object()
        self.cache[index] = index
        return index


def step(history: list[int] = []) -> None:  # noqa: B006 - as users write it
    global STEPS
    STEPS += 1
    HISTORY.append(STEPS)
    RUNNING[0] += 1
    history.append(STEPS)
    vars(step)["calls"] = STEPS


def trial_of(*objects: Any) -> Trial:
    return Trial(
        name="net",
        models={"model": Counting()},
        optimizers={},
        schedulers={},
        train_step=lambda *_: None,
        train_batches=lambda: iter(()),
        evaluate_step=None,
        validation_batches=None,
        owns_loop=True,
        entry=("net.py", 1),
        device=torch.device("cpu"),
        objects=objects,
    )


def test_what_a_function_and_a_class_of_the_users_write_to_is_put_back() -> None:
    trial = trial_of(step)
    with restored(trial) as state:
        for _ in range(3):
            step()
            trial.models["model"](torch.ones(1, 2))
        told = "; ".join(differences(trial, state))
    assert state.unrestored == []
    assert (STEPS, HISTORY, RUNNING.tolist(), Counting.passes) == (0, [], [0, 0, 0], 0)
    assert (step.__defaults__, vars(step)) == (([],), {})
    assert "`STEPS` became 3" in told
    assert "Counting: `passes` became 3" in told


def test_what_was_imported_or_compiled_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile keeps what its functions look up under names like these, for as long as they live."""
    compiled = "__builtins_dict___0"
    for name in ("lately", compiled):
        monkeypatch.setattr(sys.modules[__name__], name, None, raising=False)
        monkeypatch.delattr(sys.modules[__name__], name)
    with restored(trial_of(step)) as state:
        globals().update({"lately": types.ModuleType("lately"), "left_over": 1, compiled: {}})
    assert state.unrestored == []
    assert {"lately", compiled} <= globals().keys()
    assert "left_over" not in globals()


def test_slots_bytes_and_arrays_of_objects_are_put_back() -> None:
    slotted, content, numbers = Slotted(), bytearray(b"ab"), array("d", [1.0])
    held = np.array([[1], {}], dtype=object)
    with restored(trial_of({"a": slotted, "b": content, "c": numbers, "d": held})) as state:
        slotted.count = 5
        slotted.seen.append(1)
        content.append(1)
        numbers[0] = math.pi
        held[0].append(2)
        held[1] = None
    assert state.unrestored == []
    assert (slotted.count, slotted.seen, content, numbers.tolist()) == (0, [], b"ab", [1.0])
    assert held.tolist() == [[1], {}]


def test_of_a_data_set_counters_are_put_back_and_what_it_opened_and_cached_stays() -> None:
    data = Reading()
    loader = DataLoader(Subset(data, [0, 1, 2]))
    with restored(trial_of(loader)) as state:
        list(loader)
    assert state.unrestored == []
    assert (data.reads, data.cache) == (0, {0: 0, 1: 1, 2: 2})
    assert data.file is not None


ON_A_PARAMETER: dict[str, tuple[Callable[[nn.Parameter], Any], str]] = {
    "hook": (lambda p: p.register_hook(lambda _: None), "its hooks changed"),
    "hook after": (lambda p: p.register_post_accumulate_grad_hook(lambda _: None), "its hooks changed"),
    "attribute": (lambda p: setattr(p, "steps", 1), "`steps` appeared"),
}


@pytest.mark.parametrize("change", ON_A_PARAMETER)
@pytest.mark.parametrize("already", [False, True])
def test_what_hangs_on_a_parameter_is_put_back(change: str, already: bool) -> None:
    trial = trial_of()
    weight = trial.models["model"].layer.weight
    calls: list[int] = []
    if already:
        weight.register_hook(lambda _: calls.append(1))
        weight.register_post_accumulate_grad_hook(lambda _: calls.append(2))
    act, expected = ON_A_PARAMETER[change]
    with restored(trial) as state:
        act(weight)
        assert any(expected in line for line in differences(trial, state))
    assert state.unrestored == []
    assert "steps" not in vars(weight)
    weight.sum().backward()
    assert calls == ([1, 2] if already else [])


def other(value: object, *choices: str) -> str:
    return next(choice for choice in choices if choice != value)


# Whatever a mode is when the test begins (frameworks set some as they are imported), it becomes another.
MODES: dict[str, Callable[[], Any]] = {
    "cudnn's `benchmark`": lambda: setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark),
    "matmul precision": lambda: torch.set_float32_matmul_precision(
        other(torch.get_float32_matmul_precision(), "high", "medium")
    ),
    "numpy's handling of errors": lambda: np.seterr(divide=other(np.geterr()["divide"], "raise", "ignore")),
    "the environment": lambda: __import__("os").environ.update(MLCHECK_TEST="1"),
    "the filters of warnings": lambda: __import__("warnings").simplefilter("ignore", UnicodeWarning),
}


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_the_process_are_put_back(mode: str) -> None:
    trial = trial_of()
    with restored(trial) as state:
        MODES[mode]()
        assert any(line.startswith(f"{mode}: ") for line in differences(trial, state))
    assert state.unrestored == []
    assert differences(trial, snapshot(trial)) == []


class Rows(dict[tuple[int, int], float]):
    """Goes over its rows, compares element by element and has no hash, as scipy's `dok_matrix` does."""

    def __iter__(self) -> Any:
        return iter(np.zeros((2, 3)))

    def __eq__(self, other: object) -> Any:
        return np.zeros((2, 3)) == other

    __hash__ = None  # type: ignore[assignment]


def test_a_dict_that_does_not_go_over_its_keys_is_left_alone() -> None:
    rows = Rows({(0, 1): 1.0})
    module = nn.Linear(2, 2)
    module.__dict__["rows"], module.__dict__["counts"] = rows, {"steps": 0}
    trial = trial_of(module)
    with restored(trial) as state:
        module.__dict__["counts"]["steps"] += 1
    assert state.unrestored == []
    assert module.__dict__["counts"] == {"steps": 0}
    assert dict.__len__(rows) == 1
