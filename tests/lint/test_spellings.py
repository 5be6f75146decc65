"""What is spelled another way is told the same: running totals, gradient modes, imports, layers with names, guards."""

from __future__ import annotations

import ast
import re

import pytest
from lint_runs import lint, places, write

from mlcheck.lint.files.source import Source, parse

pytestmark = pytest.mark.usefixtures("in_empty_folder")

EVALUATED = """\
import torch
import torch.nn.functional as F


@{mode}
def evaluate(model, val_loader):
    model.eval()
    return sum(F.cross_entropy(model(x), y).item() for x, y in val_loader)
"""
STEPPED = """\
import torch
import torch.nn.functional as F


@torch.no_grad()
def adapt(model, optimizer, loader):
    model.train()
    for x, y in loader:
        with {mode}:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
TRAINED = """

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    @torch.set_grad_enabled(False)
    def score(self, loader):
        self.model.eval()
        return sum(self.model(x).argmax(1).eq(y).float().mean().item() for x, y in loader)

    def fit(self, loader):
        for epoch in range(3):
            self.model.train()
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            self.score(loader)
"""
SAVED = """\
import torch
import torch.distributed as dist


def run(model, rank, train_epoch):
    dist.init_process_group("gloo")
    for _ in range(3):
        train_epoch(model)
        chosen = {test}
        if chosen:
            torch.save(model.state_dict(), "model.pt")
"""
MODULES = ["nn", "optim", "cuda", "amp", "autograd", "backends.cudnn", "distributed", "utils.data", "nn.functional"]
CONTINUED = """\
import torch


def resume(model, optimizer, path):
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    start = state["epoch"]
    for epoch in range(start, 10):
        optimizer.zero_grad()
        model(torch.rand(2, 2)).sum().backward()
        optimizer.step()
        torch.save({saved})
"""


def read(code: str) -> str:
    source = parse("model.py", code.encode())
    assert isinstance(source, Source)
    return ast.unparse(source.tree)


@pytest.mark.parametrize(
    "begun",
    ["total = 0", "total = 0.0", "total: float = 0.0", "seen, total = 0, 0.0", "seen = total = 0"],
)
def test_a_sum_that_begins_with_a_number_is_a_running_total(begun: str) -> None:
    code = f"def f(xs):\n    {begun}\n    for x in xs:\n        total = total + x\n    return total"
    assert "total += x" in read(code)


@pytest.mark.parametrize(
    "lines",
    [
        "for x in xs:\n        total = total + x",
        "total = xs[0]\n    for x in xs:\n        total = total + x",
        "total = 0\n    total = total + xs\n    total = g(total)",
        "total = 0\n    for total in xs:\n        total = total + 1",
        "total = False\n    total = total + 1",
        "total = 0\n    total = total + (total + xs)",
        "total = 0\n    with xs as total:\n        total = total + 1",
        "total, _ = xs, 0\n    total = total + 1",
        "total, *_ = xs\n    total = total + 1",
    ],
)
def test_any_other_sum_may_be_of_tensors_that_others_hold(lines: str) -> None:
    code = f"def f(xs, total):\n    {lines}\n    return total"
    assert read(code) == ast.unparse(ast.parse(code))


def test_a_running_total_may_be_divided() -> None:
    code = "def f(xs):\n    n = 0\n    for x in xs:\n        n = n + x\n    n = n / len(xs)\n    return n"
    assert "n += x" in read(code)
    assert "n /= len(xs)" in read(code)


def test_totals_of_two_functions_are_two() -> None:
    code = "def f(x):\n    n = 0\n    n = n + x\n    return n\n\ndef g(n):\n    n = n + 1\n    return n"
    assert read(code) == ast.unparse(ast.parse(code.replace("n = n + x", "n += x")))


@pytest.mark.parametrize(
    "mode",
    ["torch.no_grad()", "torch.autograd.no_grad()", "torch.set_grad_enabled(False)", "torch.inference_mode()"],
)
def test_gradients_are_off_under_any_of_these(mode: str) -> None:
    write("model.py", EVALUATED.format(mode=mode))
    assert places(lint(), "eval-without-no-grad") == []


def test_a_decorator_switches_gradients_off_in_its_function_alone() -> None:
    code = EVALUATED.format(mode="torch.set_grad_enabled(False)") + TRAINED
    write("model.py", code)
    assert places(lint(), "training-under-no-grad") == []


@pytest.mark.parametrize("mode", ["torch.set_grad_enabled(True)", "torch.autograd.enable_grad()"])
def test_gradients_are_on_under_these(mode: str) -> None:
    write("model.py", STEPPED.format(mode=mode))
    assert places(lint(), "training-under-no-grad") == []
    write("model.py", STEPPED.format(mode="torch.no_grad()"))
    assert places(lint(), "training-under-no-grad") != []


@pytest.mark.parametrize(
    ("test", "alarms"),
    [("rank == 0", 0), ("dist.get_rank() == 0", 0), ("train_epoch(rank) == 0", 0), ("model.training", 1)],
)
def test_a_guard_may_be_a_name_that_was_asked_before(test: str, alarms: int) -> None:
    write("train.py", SAVED.format(test=test))
    assert len(places(lint(), "save-on-all-ranks")) == alarms


def test_one_name_may_come_from_many_imports() -> None:
    imports = "".join(f"import torch.{module}\n" for module in MODULES)
    write("model.py", imports + "\n\ndef f(x):\n    return torch.nn.functional.softmax(x)\n")
    assert places(lint(), "softmax-no-dim") == [("model.py", 13)]


@pytest.mark.parametrize(("last", "alarms"), [("Softmax(dim=1)", 1), ("ReLU()", 0)])
@pytest.mark.parametrize("made", ["OrderedDict", "dict"])
def test_layers_may_have_names(made: str, last: str, alarms: int) -> None:
    layers = f"{made}([('fc', nn.Linear(8, 4)), ('last', nn.{last})])"
    held = f"nn.Sequential({layers})" if made == "OrderedDict" else f"nn.Sequential(*{layers}.values())"
    code = f"from collections import OrderedDict\nfrom torch import nn\n\nmodel = {held}\n"
    write("model.py", code + "criterion = nn.CrossEntropyLoss()\n\n\ndef f(x, y):\n    return criterion(model(x), y)\n")
    assert len(places(lint(), "softmax-before-ce")) == alarms


@pytest.mark.parametrize("saved", ["{'model': 1, 'epoch': 2}, 'x.pt'", "obj={'model': 1, 'epoch': 2}, f='x.pt'"])
def test_what_is_saved_may_be_given_by_name(saved: str) -> None:
    write("train.py", CONTINUED.format(saved=saved.replace("1", "model.state_dict()").replace("2", "epoch")))
    report = lint()
    assert not [result.traceback for result in report.results if result.traceback]


ANNOTATED = """\
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim


class Settings:
    rate: float = 0.1


def train(loader, settings: Settings):
    model: nn.Module = nn.Sequential(nn.Linear(8, 2), nn.Softmax(dim=1))
    optimizer: optim.Optimizer = optim.SGD(model.parameters(), lr=settings.rate)
    total: float = 0.0
    for x, y in loader:
        scores: Tensor = model(x)
        loss: Tensor = F.cross_entropy(scores, y)
        loss.backward()
        optimizer.step()
        total += loss
    return total
"""


def test_an_annotated_assignment_is_one() -> None:
    plain = re.sub(r": (?:nn\.Module|optim\.Optimizer|float|Tensor) =", " =", ANNOTATED)
    found = []
    for name, code in (("annotated", ANNOTATED), ("plain", plain)):
        write(f"{name}.py", code)
        results = lint(f"{name}.py").results
        found.append({(each.rule, finding.location.line) for each in results for finding in each.findings})
    assert found[0] == found[1]
    assert {"softmax-before-ce", "missing-zero-grad", "loss-keeps-graph"} <= {rule for rule, _ in found[0]}


def test_the_fields_of_a_class_keep_their_annotations() -> None:
    source = parse("a.py", b"class A:\n    x: int = 0\n    def f(self):\n        self.y: int = 1\n        z: int\n")
    assert isinstance(source, Source)
    kinds = [type(node).__name__ for node in ast.walk(source.tree) if isinstance(node, ast.Assign | ast.AnnAssign)]
    assert sorted(kinds) == ["AnnAssign", "AnnAssign", "Assign"]
