"""Classes and functions that a setting chooses by name: any of those that a module offers may be meant."""

from __future__ import annotations

import pytest

from mlcheck.lint.files.source import Source, parse
from mlcheck.lint.interpret import roots
from mlcheck.lint.interpret.interpreter import Interpreter
from mlcheck.lint.program import Program
from mlcheck.lint.sites import Sites

NETS = """
import torch
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        return x


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.head = Block(), nn.Linear(4, 2)

    def forward(self, x):
        return torch.softmax(self.head(x), dim=1)


class Large(Small):
    pass


class Largest(Small):
    pass
"""
LOSSES = """
from torch.nn import functional as F


def plain(output, target):
    return F.cross_entropy(output, target)
"""
MIXED = """
from torch import nn


class Net(nn.Module):
    pass


def size(x):
    return 1
"""
MAIN = """
import importlib
import sys
import torch
from torch.nn import functional as F
import losses
import nets
import mixed
from models import *
import models


def train(loader, args):
    model = {made}
    optimizer = {optimizer}
    for x, y in loader:
        optimizer.zero_grad()
        loss = {loss}
        loss.backward()
        optimizer.step()
"""
FILES = {
    "nets.py": NETS,
    "losses.py": LOSSES,
    "mixed.py": MIXED,
    "models/__init__.py": "from .first import Small\nfrom .second import *\n",
    "models/first.py": NETS,
    "models/second.py": NETS.replace("Small", "Tiny").replace("Larg", "Hug"),
    "nest/one.py": NETS,
    "nest/two.py": NETS,
    "lone/one.py": NETS,
    "lone/two.py": MIXED,
}


def losses_of(made: str, loss: str = "F.cross_entropy(model(x), y)", optimizer: str = "None") -> set[str]:
    """What the criterion is given, of all that the model may be."""
    files = {**FILES, "main.py": MAIN.format(made=made, loss=loss, optimizer=optimizer)}
    parsed = [
        parse(path, text.encode(), path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        for path, text in files.items()
    ]
    program = Program([source for source in parsed if isinstance(source, Source)])
    machine = Interpreter(program, Sites(program))
    for _, run in roots.plan(machine):
        run()
    where = "losses.py" if "(losses" in loss else "main.py"
    return {getattr(fact.input, "kind", "") for fact in machine.facts.losses if fact.place.path == where}


@pytest.mark.parametrize(
    "made",
    [
        "getattr(nets, args.arch)()",
        "nets.__dict__[args.arch]()",
        "nets.__dict__['Large']()",
        "eval('nets.' + args.arch)()",
        "eval(f'nets.{args.arch}')()",
        "getattr(importlib.import_module('nets'), args.arch)()",
        "getattr(models, args.arch)()",
        "eval(args.arch)()",
        "globals()[args.arch]()",
        "getattr(sys.modules[__name__], args.arch)()",
        "importlib.import_module('nest.' + args.arch).Large()",
        "importlib.import_module(f'nest.{args.arch}').Large()",
        "importlib.import_module('nest.{}'.format(args.arch)).Large()",
        "importlib.import_module('nest.%s' % args.arch).Large()",
    ],
)
def test_networks_that_end_alike_are_known_by_their_end(made: str) -> None:
    assert losses_of(made) == {"softmax"}


@pytest.mark.parametrize(
    "made",
    [
        "getattr(args.module, args.arch)()",  # of what is not known
        "getattr(mixed, args.arch)()",  # a network, or a number
        "getattr(nets, args.arch, None)()",
        "eval(args.arch + '()')",
        "eval(f'nets.{args.arch}()')",
        "importlib.import_module(f'lone.{args.arch}').Large()",  # one file alone has it
        "importlib.import_module(f'{args.package}.{args.arch}').Large()",
        "getattr(importlib.import_module(args.module), args.arch)()",
    ],
)
def test_what_may_be_of_any_kind_stays_unknown(made: str) -> None:
    assert losses_of(made) == {""}


def test_a_loss_chosen_by_name_is_followed() -> None:
    assert "softmax" in losses_of("nets.Small()", "getattr(losses, args.loss)(model(x), y)")
