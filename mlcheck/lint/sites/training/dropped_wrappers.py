"""Wrappers that nobody takes, and exchanges between ranks that write into a tensor nobody else holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.ranks import mentions_rank
from mlcheck.lint.sites.straight import read_after

_WRAPPERS = (
    *("torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel", "torch.compile"),
    "torch.distributed.fsdp.FullyShardedDataParallel",
)
_PREPARING = {"prepare": ".Accelerator", "setup": ".Fabric", "setup_dataloaders": ".Fabric"}
_EXCHANGES = ("torch.distributed.all_reduce", "torch.distributed.broadcast")
_MOVES = ("cuda", "to", "train", "eval", "float", "double", "cpu", "contiguous", "view", "reshape", "unsqueeze")
_NEW = ("clone", "mean", "sum", "item", "max", "min", "norm")
_MAKERS = ("torch.tensor", "torch.stack", "torch.cat")
_SETTINGS = ("device", "dtype")


def dropped_wrappers(sites: Sites) -> Iterator[tuple[Call, ast.expr]]:
    """`DDP(model)` and `accelerator.prepare(model, optimizer)` as statements, with what is then used as it was."""
    for call in sites.calls(*_WRAPPERS):
        first = call.node.args[0] if call.node.args else None
        if _is_statement(call) and first is not None and _is_used_later(call, first):
            yield call, first
    for file in sites.mentioning([".prepare(", ".setup"]):
        for call in file.calls(*_PREPARING):
            if call.node not in file.statements or len(call.node.args) < 2 or not _prepares(call):
                continue
            used = [given for given in call.node.args if _is_used_later(call, given)]
            if used:
                yield call, used[0]


def lost_exchanges(sites: Sites) -> Iterator[tuple[Call, ast.expr]]:
    """`dist.all_reduce(torch.tensor(correct))`: what comes back from the other ranks is in a tensor without a name."""
    for call in sites.calls(*_EXCHANGES):
        given = call.argument("tensor", 0)
        if call.node not in call.file.statements or given is None or any(map(mentions_rank, conditions(call.context))):
            continue
        if _is_made_here(call, given) and not (call.name.endswith(".broadcast") and _may_be_received(call)):
            yield call, given


def _may_be_received(broadcast: Call) -> bool:
    """Whether the others may take it into a tensor that they hold, in another function than the one that sends it."""
    others = broadcast.file.calls("broadcast")
    return any(not _is_made_here(each, tensor) for each in others if (tensor := each.argument("tensor", 0)) is not None)


def _is_statement(call: Call) -> bool:
    """Whether a line does nothing but this call, and moves what it made."""
    return any(before_methods(line, _MOVES) is call.node for line in call.file.statements) and not _is_tried(call)


def _is_tried(call: Call) -> bool:
    """Whether it is run to see if it raises."""
    return any(outer.kind in ("with", "try") for outer in call.context.outwards())


def _is_used_later(call: Call, given: ast.expr) -> bool:
    """Whether the program goes on with the name or the attribute that was given."""
    if isinstance(given, ast.Name):
        around = call.function
        return around is not None and read_after(around.node, call.node, given.id) is not None
    if not isinstance(given, ast.Attribute) or call.cls is None:
        return False
    text = ast.unparse(given)
    reads = (node for node in walk(call.cls.node) if isinstance(node, ast.Attribute) and node.attr == given.attr)
    return any(ast.unparse(node) == text and node.lineno > call.node.lineno for node in reads)


def _prepares(call: Call) -> bool:
    method = call.node.func
    if not isinstance(method, ast.Attribute) or method.attr not in _PREPARING:
        return False
    found = origins(call.file, method.value, call.context)
    return bool(found) and all(origin.name.endswith(_PREPARING[method.attr]) for origin in found)


def _is_made_here(call: Call, given: ast.expr) -> bool:
    """Whether it is a new tensor of something that the program knows: no zeros that only wake the ranks up."""
    while isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr in _MOVES:
        if call.file.called(given, call.context):
            break
        given = given.func.value
    if isinstance(given, ast.BinOp):
        return True
    if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute | ast.Name):
        return False
    if call.file.called(given, call.context) in _MAKERS:
        return bool(given.args) and any(isinstance(node, ast.Name | ast.Attribute) for node in walk(given.args[0]))
    return isinstance(given.func, ast.Attribute) and given.func.attr in _NEW
