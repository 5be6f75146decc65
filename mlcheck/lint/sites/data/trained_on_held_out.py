"""Validation data that is handed to a function with the word that makes it train."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.values import split_of_name

_SWITCH = pattern(r"^(?:is_)?train(?:ing|_mode)?$")
_NAMES = {"val": "validation", "test": "test"}
_TRAINS = ("backward", "step")


def trained_on_held_out(sites: Sites) -> Iterator[Finding]:
    """`run_epoch(model, val_loader, training=True)`, where the function trains if it is told to."""
    for file in sites.mentioning(["training", "train", "is_train", "is_training", "train_mode"]):
        for function in file.functions if ".backward(" in file.text else ():
            switch = next((name for name in function.parameters if _SWITCH.search(name)), "")
            if not switch or not _trains_if_told(function, switch):
                continue
            told: dict[str, list[Call]] = {}
            for call in callers(sites, function):
                told.setdefault(_held_out(call), []).append(call)
            for split, calls in told.items():
                if split not in _NAMES or not all(_is_told(call, function, switch) for call in calls):
                    continue
                yield Finding(
                    f"The {_NAMES[split]} data is handed over with `{switch}=True`: the model is trained on it",
                    calls[0].place.location,
                    help=f"`{switch}=False`",
                    related=(function.place().location,),
                )


def _trains_if_told(function: Function, switch: str) -> bool:
    """Whether each backward pass stands under `if training:`."""
    arms = [node for node in function.all(ast.If) if ast.unparse(node.test) == switch]
    inside = {part for arm in arms for line in arm.body for part in walk(line)}
    calls = [call for call in function.all(ast.Call) if last_name(call.func) in _TRAINS]
    return bool(calls) and all(call in inside for call in calls)


def _held_out(call: Call) -> str:
    """The split that an argument is named for, where that is not the training."""
    given = (*call.node.args, *(word.value for word in call.node.keywords))
    splits = {split_of_name(last_name(arg)) for arg in given if last_name(arg)} - {""}
    return splits.pop() if len(splits) == 1 and "train" not in splits else ""


def _is_told(call: Call, function: Function, switch: str) -> bool:
    position = list(function.parameters).index(switch) - (1 if function.receiver else 0)
    value = call.argument(switch, position)
    value = function.parameters[switch] if value is None else value
    return value is not OPEN and isinstance(value, ast.Constant) and value.value is True
