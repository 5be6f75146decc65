"""Lightning programs: what their modules log and return, and on how many devices their Trainers run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.project import Sites

_PACKAGES = ("lightning", "lightning.pytorch", "pytorch_lightning", "lightning.pytorch.trainer")
TRAINERS = tuple(f"{package}.Trainer" for package in _PACKAGES)
_EVALUATIONS = ("validation_step", "test_step")
_EARLY = pattern(r"second_order_closure|[\"']progress_bar[\"']\s*:")
_LOSSES = ("torch.nn.functional.", "torch.nn.")


def local_losses(sites: Sites) -> Iterator[tuple[Call, Call]]:
    """`self.log("val_loss", loss)` of a plain loss in an evaluation on several devices, and the Trainer that runs it.

    Metrics of torchmetrics put themselves together, and names tell nothing: only a loss of torch is certain.
    """
    trainers = list(sites.calls(*TRAINERS))
    if not trainers or not all(map(_is_on_several, trainers)):
        return
    for file in sites.mentioning(_EVALUATIONS):
        for call in file.calls("log"):
            function, func = call.function, call.node.func
            if function is None or function.name not in _EVALUATIONS or own_attribute(func, function) != "log":
                continue
            if call.cls is None or not any(name.endswith(".LightningModule") for name in call.cls.libraries):
                continue
            given = ("sync_dist", "rank_zero_only", "on_epoch", "reduce_fx")
            open_ = any(keyword.arg is None for keyword in call.node.keywords)
            if open_ or any(call.argument(name) is not None for name in given):
                continue
            if _is_loss(call):
                yield call, trainers[0]


def _is_loss(call: Call) -> bool:
    value = call.argument("value", 1)
    if value is None:
        return False
    made, context = source(call.file, value, call.context)
    called = call.file.called(made, context)
    if called.startswith(_LOSSES[0]):
        return True
    name = own_attribute(made.func, call.function) if isinstance(made, ast.Call) else ""
    sets = call.cls.attribute(name) if call.cls is not None and name else []
    kept = [where.file.called(assigned.value, assigned.context) for where, assigned in sets]
    return bool(kept) and all(each.startswith(_LOSSES[1]) and each.endswith("Loss") for each in kept)


def _is_on_several(trainer: Call) -> bool:
    """Whether a Trainer certainly runs on more than one device, each with its own share of the data."""
    nodes, strategy = trainer.constant("num_nodes", None, 1), trainer.constant("strategy")
    given = trainer.argument("devices")
    listed = len(given.elts) if isinstance(given, ast.List | ast.Tuple) else 0
    number = trainer.constant("devices")
    several = listed > 1 or (isinstance(number, int) and number > 1) or (isinstance(nodes, int) and nodes > 1)
    return several and (
        strategy is None or (isinstance(strategy, str) and strategy.startswith(("ddp", "fsdp", "auto")))
    )


def answers(step: Function, node: ast.expr) -> list[tuple[Function, ast.expr]]:
    """What is returned, and where that stands: of `self.shared(batch)` and of its name what the method returns."""
    value, where = step.file.value(node, step.inner)
    method = step.file.resolve(value.func, where) if isinstance(value, ast.Call) else None
    if isinstance(method, Function) and method.cls is not None and method.cls in (step.cls.line if step.cls else ()):
        return [(method, answer) for answer in returns(method)]
    return [(step, node)]


def is_of_early_lightning(cls: Class) -> bool:
    """Whether it is written for a Lightning before 1.0: a closure for second orders, a dictionary for the bar."""
    return any(_EARLY.search(base.text) for base in cls.line)
