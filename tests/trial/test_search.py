"""What a search may start: the values of its ranges, its draws, and the command lines of a runner's grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlcheck.trial.config import hyperparameters
from mlcheck.trial.ranges import values_of
from mlcheck.trial.search import (
    Search,
    arguments_of,
    begun,
    examined_with,
    key_of,
    middle_of,
    search_of,
    started_with,
)
from mlcheck.trial.trial import EntryOptions

WIDTH = {"type": "categorical", "vals": [64, 128]}
GRID = {
    "script": "train.py",
    "words": ["--lr", "{lr}", "[momentum]", "[nesterov]", "--out={_output}", "--{net}"],
    "default": {"lr": 0.1, "momentum": 0.9, "nesterov": False, "net": "small"},
    "given": {"_output": "rehearsed"},
    "alias": {"size": {"big": {"net": "wide", "momentum": 0.5}}},
    "sweeps": [{"lr": [0.1, 0.01]}, {"size": ["big"], "nesterov": [True, False]}],
}


def options(folder: Path, declared: dict[str, Any], searcher: str = "grid", **others: Any) -> EntryOptions:
    path = folder / "experiment.yaml"
    path.write_text(json.dumps({"hyperparameters": declared, "searcher": {"name": searcher}}))
    return EntryOptions(config=path, seed=0, **others)


def search(of: EntryOptions) -> Search:
    found = search_of(of)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"type": "int", "minval": 1, "maxval": 4, "count": 9}, (1, 2, 3, 4)),
        ({"type": "int", "minval": 0, "maxval": 9, "count": 3}, (0, 5, 9)),  # 4.5 is rounded away from zero
        ({"type": "int", "minval": -9, "maxval": 0, "count": 3}, (-9, -5, 0)),
        ({"type": "int", "minval": 2, "maxval": 6, "count": 1}, (4,)),
        ({"type": "double", "minval": 0, "maxval": 1, "count": 3}, (0.0, 0.5, 1.0)),
        ({"type": "log", "minval": -2, "maxval": 0, "base": 10, "count": 3}, (0.01, 0.1, 1.0)),
        ({"type": "log", "minval": 0, "maxval": 4, "base": 2, "count": 1}, (4.0,)),
        ({"type": "categorical", "vals": [1, 1.0, True, 1, "1"]}, (1, 1.0, True, "1")),
        ({"type": "categorical", "vals": [[1, 2], {"a": 1}, [1, 2]]}, ([1, 2], {"a": 1})),
        ({"type": "const", "val": 3}, (3,)),
    ],
)
def test_a_grid_takes_the_values_that_determined_takes(given: dict[str, Any], values: tuple[Any, ...]) -> None:
    found, whole = values_of(given, is_grid=True)
    assert list(map(key_of, ({"": one} for one in found))) == list(map(key_of, ({"": one} for one in values)))
    assert whole


@pytest.mark.parametrize(
    ("given", "values", "whole"),
    [
        ({"type": "int", "minval": 1, "maxval": 4}, (1, 2, 3, 4), True),
        ({"type": "int", "minval": 16, "maxval": 256, "count": 3}, (16, 136, 256), False),
        ({"type": "double", "minval": 0.1, "maxval": 0.5}, (0.1, 0.5), False),
        ({"type": "log", "minval": -3, "maxval": -1, "base": 10}, (0.001, 0.1), False),
    ],
)
def test_of_other_searches_a_range_stands_for_its_ends(
    given: dict[str, Any], values: tuple[Any, ...], whole: bool
) -> None:
    assert values_of(given, is_grid=False) == (values, whole)


def test_nested_groups_are_searched_and_constants_are_not(tmp_path: Path) -> None:
    declared = {"optimizer": {"lr": {"type": "double", "minval": 0, "maxval": 1}, "name": "sgd"}, "width": WIDTH}
    found = search(options(tmp_path, declared | {"depth": {"type": "const", "val": 2}}, "random"))
    assert [axis.name for axis in found.products[0]] == ["optimizer.lr", "width"]
    assert not found.whole
    assert len(found.draws) == 8
    assert all(0 <= one["optimizer.lr"] <= 1 and one["width"] in (64, 128) for one in found.draws)
    assert found == search_of(options(tmp_path, declared, "random"))  # the draws are seeded


def test_a_grid_draws_nothing(tmp_path: Path) -> None:
    found = search(options(tmp_path, {"width": WIDTH}))
    assert (found.is_grid, found.whole, found.draws) == (True, True, ())


@pytest.mark.parametrize("declared", [{}, {"lr": 0.1}, {"lr": {"type": "categorical", "vals": [0.1, 0.1]}}])
def test_one_combination_is_no_search(tmp_path: Path, declared: dict[str, Any]) -> None:
    assert search_of(options(tmp_path, declared)) is None
    assert search_of(EntryOptions()) is None


def test_the_trial_of_a_grid_is_examined_at_one_of_its_points(tmp_path: Path) -> None:
    declared = {"heads": {"type": "int", "minval": 2, "maxval": 8, "count": 4}}
    of = options(tmp_path, declared)
    middle = middle_of(search(of), of)
    assert middle is not None
    assert middle["heads"] in values_of(declared["heads"], is_grid=True)[0]
    assert hyperparameters({"hyperparameters": declared}, {}, "x")["heads"] == 5  # nobody's grid


def test_a_combination_wins_over_what_the_user_gives(tmp_path: Path) -> None:
    of = options(tmp_path, {"width": WIDTH}, hparams={"width": 3, "data": "small"})
    assert started_with(of, {"width": 64}).hparams == {"width": 64, "data": "small"}
    assert middle_of(search(of), of) == {"width": 3}


def test_the_values_that_stand_for_ranges_are_told(tmp_path: Path) -> None:
    of = options(tmp_path, {"width": WIDTH, "lr": 0.1})
    told = f"of the ranges in {of.config} it was started with width=64: --hp NAME=VALUE sets others"
    assert examined_with(of) == told
    assert examined_with(options(tmp_path, {"lr": 0.1})) == examined_with(EntryOptions()) == ""


def test_a_runner_fills_values_flags_and_aliases() -> None:
    assert list(arguments_of(GRID, {"lr": 0.01})) == ["--lr", "0.01", "--momentum", "0.9", "--out=rehearsed", "--small"]
    filled = list(arguments_of(GRID, {"size": "big", "nesterov": True}))
    assert filled == ["--lr", "0.1", "--momentum", "0.5", "--nesterov", "--out=rehearsed", "--wide"]


def test_a_script_is_examined_as_the_runner_starts_it_first() -> None:
    of = EntryOptions(grid=GRID)
    assert begun(of).arguments[:2] == ("--lr", "0.1")
    assert begun(EntryOptions(grid=GRID, arguments=("--lr", "3"))).arguments == ("--lr", "3")
    assert [[axis.name for axis in product] for product in search(of).products] == [["lr"], ["size", "nesterov"]]
    assert middle_of(search(of), of) is None


def test_options_go_to_another_process_and_come_back(tmp_path: Path) -> None:
    of = options(tmp_path, {"width": WIDTH}, hparams={"a.b": [1]}, arguments=("--x", "1"), memory_limit=7, grid=GRID)
    assert EntryOptions.read(json.loads(json.dumps(of.plain()))) == of
    assert EntryOptions.read(json.loads(json.dumps(EntryOptions().plain()))) == EntryOptions()
