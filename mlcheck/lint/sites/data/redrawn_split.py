"""A data module of Lightning that draws its split in `setup`, which each of `fit`, `validate` and `test` calls anew.

Source: https://lightning.ai/docs/pytorch/stable/data/datamodule.html#setup"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.lightning import TRAINERS

_LOADERS = {"test": "test_dataloader", "validate": "val_dataloader"}


class Redrawn(NamedTuple):
    """The split, and the evaluation that draws it a second time."""

    split: Call
    evaluation: Call


def redrawn(sites: Sites) -> Iterator[Redrawn]:
    """`trainer.fit(model, data)` and `trainer.test(model, data)`, where the part that is tested comes of an unguarded,
    unseeded `random_split` in the `setup` of `data`: most of it was trained on."""
    for split in sites.calls("torch.utils.data.random_split"):
        function, cls = split.function, split.cls
        if function is None or cls is None or function.name != "setup" or not _is_data_module(cls):
            continue
        if split.argument("generator", 2) is not None or "seed" in function.text or _is_guarded(split):
            continue
        evaluation = next(_evaluations(sites, cls, _parts(split, function)), None)
        if evaluation is not None:
            yield Redrawn(split, evaluation)


def _is_data_module(cls: Class) -> bool:
    return any(name.endswith(".LightningDataModule") for name in cls.libraries)


def _is_guarded(split: Call) -> bool:
    """Whether a test decides about it, `if stage == "fit"`, or one above it ends the method."""
    inside = takewhile(lambda outer: outer.kind != "function", split.context.outwards())
    returns = split.function is not None and any(isinstance(node, ast.Return) for node in split.function.nodes)
    return returns or any(outer.kind != "with" for outer in inside)


def _parts(split: Call, function: Function) -> set[str]:
    """`train` and `val` of `self.train, self.val = random_split(...)`."""
    for node in function.nodes:
        if isinstance(node, ast.Assign) and node.value is split.node and isinstance(node.targets[0], ast.Tuple):
            return {name for part in node.targets[0].elts if (name := own_attribute(part, function))}
    return set()


def _evaluations(sites: Sites, cls: Class, parts: set[str]) -> Iterator[Call]:
    """The evaluations that follow a training by the same Trainer on this data, over another part of the split."""
    trained = _used(cls, "train_dataloader") & parts
    for file in sites.mentioning([".fit("]):
        for fit in file.calls("fit"):
            if not trained or fit.owner is None or cls not in _data(fit) or not _is_trainer(fit):
                continue
            for call in file.calls(*_LOADERS):
                name = call.node.func.attr if isinstance(call.node.func, ast.Attribute) else ""
                held = (_used(cls, _LOADERS.get(name, "")) & parts) - trained
                together = call.function is fit.function and call.node.lineno > fit.node.lineno
                same = call.owner is not None and ast.unparse(call.owner) == ast.unparse(fit.owner)
                if held and together and same and (cls in _data(call) or _names_no_data(call)):
                    yield call


def _is_trainer(fit: Call) -> bool:
    made, context = fit.file.value(fit.owner, fit.context) if fit.owner is not None else (None, fit.context)
    return made is not None and fit.file.called(made, context) in TRAINERS


def _used(cls: Class, name: str) -> set[str]:
    """The attributes of `self` that a method reads."""
    method = cls.find(name)
    return {own_attribute(node, method) for node in method.nodes if isinstance(node, ast.expr)} if method else set()


def _data(call: Call) -> list[Class]:
    """The classes of the project whose objects are given to a call."""
    found = []
    for given in (*call.node.args, *(keyword.value for keyword in call.node.keywords)):
        made, context = call.file.value(given, call.context)
        cls = call.file.resolve(made.func, context) if isinstance(made, ast.Call) else None
        if isinstance(cls, Class):
            found.append(cls)
    return found


def _names_no_data(call: Call) -> bool:
    """`trainer.test(ckpt_path="best")`: on the data that it was trained on."""
    return not call.node.args and all(keyword.arg == "ckpt_path" for keyword in call.node.keywords)
