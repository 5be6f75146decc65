"""A script that tests saved weights on a split of its own drawing: most of its samples were trained on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.data.seeds import NUMPY, TORCH, seeds
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_SKLEARN = "sklearn.model_selection.train_test_split"
_RANDOM_SPLIT = "torch.utils.data.random_split"
_TRAINS = pattern(r"(?<![a-z])(?:train|fit|backward|step)(?!_test_split|ed|able)", re.IGNORECASE)
_STORES = ("dump", "to_csv", "savetxt", "writelines", "write", "savez")


class SplitAgain(NamedTuple):
    """Where the split is drawn for the test, and where for the training."""

    tested: Call
    trained: Call


def split_again(sites: Sites) -> Iterator[SplitAgain]:
    """An unseeded split that one script draws for training and another one, which loads the weights, for its test."""
    drawn = [(split, asked) for split in _unseeded(sites) for asked in _asked(sites, split)]
    for split, tested in drawn:
        if not _tests_weights(tested) or any(split_of_name(name) not in ("val", "test") for name in _kept(tested)):
            continue
        for other, trained in drawn:
            same = other is split or ast.unparse(other.node) == ast.unparse(split.node)
            if same and trained.file is not tested.file and trained.file.calls("backward") and _kept(tested):
                yield SplitAgain(tested, trained)
                break


def _unseeded(sites: Sites) -> Iterator[Call]:
    for call in sites.calls(_RANDOM_SPLIT, _SKLEARN):
        by_torch = call.name == _RANDOM_SPLIT
        given = call.argument("generator", 2) if by_torch else call.argument("random_state")
        ordered = call.constant("shuffle", None, True) is not True
        if given is None and not ordered and not seeds(sites, TORCH if by_torch else NUMPY):
            if not any(file.calls(*_STORES) for file in sites.mentioning(_STORES)):
                yield call


def _asked(sites: Sites, split: Call) -> list[Call]:
    """The split itself at the top level of a script and in its `main`, else the calls of the function around it."""
    function = split.function
    if function is None or function.cls is not None:
        return [split] if function is None else []
    calls = list(callers(sites, function))
    away = [call for call in calls if call.file is not split.file]
    return away or [split]


def _tests_weights(asked: Call) -> bool:
    """Whether its file loads weights and calls nothing that may train."""
    names = asked.file.walk.calls
    return "load_state_dict" in names and "eval" in names and not any(_TRAINS.search(name) for name in names)


def _kept(asked: Call) -> list[str]:
    """The parts that are read later on: `test_set` of `_, test_set = split(data)`."""
    for node in ast.walk(asked.function.node if asked.function is not None else asked.file.module.source.tree):
        if isinstance(node, ast.Assign) and node.value is asked.node and isinstance(node.targets[0], ast.Tuple):
            names = [part.id for part in node.targets[0].elts if isinstance(part, ast.Name)]
            return [name for name in names if asked.file.uses[name] > 0]
    return []
