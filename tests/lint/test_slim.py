"""A slim tree says what Python's own says, in a third of the memory; and so does lint of what it reads in it."""

from __future__ import annotations

import ast
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from mlcheck.core.report import Report
from mlcheck.lint import run
from mlcheck.lint.files.slim import SLIM, slimmed
from mlcheck.lint.nodes import walk
from mlcheck.lint.run import LintSettings, run_lint
from tests.lint.test_nodes import HERE, ODD

FIXTURES = HERE / "fixtures"
CODES = [ODD, *(file.read_text("utf-8") for file in HERE.glob("*.py"))]


def spelled(node: object) -> object:
    """The node and all below it, with every field and place."""
    if isinstance(node, list):
        return [spelled(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [spelled(getattr(node, name, None)) for name in node._fields if name != "kind"]
    return type(node).__name__, fields, [getattr(node, name) for name in node._attributes]


@pytest.mark.parametrize("code", CODES)
def test_nothing_is_lost(code: str) -> None:
    assert spelled(slimmed(ast.parse(code), code)) == spelled(ast.parse(code))


def test_every_node_is_slim_and_taken_for_what_it_is() -> None:
    tree = slimmed(ast.parse(ODD), ODD)
    plain = {type(node) for node in ast.walk(ast.parse(ODD)) if node._fields or node._attributes}
    assert plain <= SLIM.keys()
    assert {type(node) for node in ast.walk(tree) if node._fields or node._attributes} == {SLIM[kind] for kind in plain}
    assert not any(vars(node) for node in walk(tree))
    assert ast.unparse(tree) == ast.unparse(ast.parse(ODD))


def test_it_takes_a_third_of_the_memory() -> None:
    def size(tree: ast.AST) -> int:
        places = {id(place): sys.getsizeof(place) for node in walk(tree) if (place := getattr(node, "lineno", None))}
        held = [sys.getsizeof(vars(node)) if type(node) in SLIM else 0 for node in walk(tree)]
        return sum(places.values()) + sum(held) + sum(map(sys.getsizeof, walk(tree)))

    code = Path(__file__).read_text("utf-8")
    assert size(slimmed(ast.parse(code), code)) < size(ast.parse(code)) / 3


def test_a_deep_copy_is_slim_and_whole() -> None:
    tree = slimmed(ast.parse(ODD), ODD)
    copied = deepcopy(tree)
    assert spelled(copied) == spelled(tree)
    assert {type(node) for node in ast.walk(copied)} == {type(node) for node in ast.walk(tree)}
    assert not {id(node) for node in walk(copied) if type(node) in SLIM.values()} & {id(node) for node in walk(tree)}


def test_what_is_nested_too_deeply_stays_as_it_is() -> None:
    code = "x = 1" + " + 1" * sys.getrecursionlimit()
    tree = slimmed(ast.parse(code), code)
    assert sum(isinstance(node, ast.Constant) for node in walk(tree)) == sys.getrecursionlimit() + 1


def test_rules_that_copy_or_sort_nodes_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader for each word, and a class that speaks of dropout in two ways."""
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, drop):\n"
        "        super().__init__()\n"
        "        self.drop = nn.Dropout(drop)\n"
        "        self.body = nn.LSTM(4, 4, 2, dropout=drop)\n"
        "        self.spare = nn.Dropout(0.5)\n"
        "    def forward(self, x):\n"
        "        return self.body(x)[0]\n"
        "def loaders(sets):\n"
        "    return {k: DataLoader(sets[k], 8, shuffle=k == 'val', drop_last=True) for k in ['train', 'val']}\n"
        "loaders({'train': torch.load('a'), 'val': torch.load('b')})['val']\n"
    )

    def told() -> Report:
        return replace(run_lint([str(tmp_path)], LintSettings()), started="", seconds=0)

    usual = told()
    monkeypatch.setattr(run, "_LARGE", 0)
    assert told() == usual
    assert not [result for result in usual.results if result.outcome == "error"]


@pytest.mark.parametrize("folder", [folder.name for folder in FIXTURES.iterdir() if folder.is_dir()])
def test_lint_finds_the_same_in_both(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> Report:
        return replace(run_lint([str(FIXTURES / folder)], LintSettings()), started="", seconds=0)

    usual = told()
    monkeypatch.setattr(run, "_LARGE", 0)
    assert told() == usual
