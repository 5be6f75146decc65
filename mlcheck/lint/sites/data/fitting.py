"""The loaders that Lightning's Trainer is handed for training: `trainer.fit(model, loader)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.sites.model import OPEN, Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_TRAINERS = ("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer")
_KEYWORDS = ("train_dataloaders", "train_dataloader")


def fitted(sites: Sites) -> Iterator[Origin]:
    """Where what such a call trains on may come from."""
    for file in sites.mentioning([".fit("]):
        for call in file.calls("fit") if "ightning" in file.text else ():
            given = _training_data(call)
            if given is not None and _is_of_trainer(call):
                yield from origins(file, given, call.context)


def _training_data(call: Call) -> ast.expr | None:
    found = [call.argument(keyword, 1) for keyword in _KEYWORDS]
    return next((each for each in found if each is not None and each is not OPEN), None)


def _is_of_trainer(call: Call) -> bool:
    func = call.node.func
    made = origins(call.file, func.value, call.context) if isinstance(func, ast.Attribute) else []
    return bool(made) and all(each.name in _TRAINERS for each in made)
