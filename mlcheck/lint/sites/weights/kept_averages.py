"""Averages of weights that an object of a library keeps, and the method that moves them after each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites

_MOVES = {
    "torch.optim.swa_utils.AveragedModel": "update_parameters",
    "diffusers.training_utils.EMAModel": "step",
    "torch_ema.ExponentialMovingAverage": "update",
    "ema_pytorch.EMA": "update",
    "timm.utils.ModelEma": "update",
    "timm.utils.ModelEmaV2": "update",
    "timm.utils.ModelEmaV3": "update",
}
_BLENDS = pattern(r"\.lerp_\(|\.mul_\(.*\.add_\(|\.copy_\(.*[*].*[+]")
_NAMES = sorted({name.rpartition(".")[2] for name in _MOVES})
_LEAVE_IT = frozenset(["to", "cuda", "eval", "train", "requires_grad_", "state_dict", "load_state_dict", "config"])
_LEAVE_IT |= {"copy_to", "store", "restore", "average_parameters", "save_pretrained", "decay", "cur_decay_value"}
_TAKERS = ("save", "update_bn", "register_for_checkpointing", "isinstance", "print")


class Still(NamedTuple):
    """The call that makes the average, its name, and the method of it that nobody calls."""

    made: Call
    name: str
    move: str


def still_averages(sites: Sites) -> Iterator[Still]:
    """Averages made where a model is trained, that nothing moves and nothing that could is given."""
    for file in sites.mentioning(_NAMES):
        for made in file.calls(*_NAMES) if ".backward(" in file.text else ():
            named, names = file.resolve(made.node.func, made.context), file.names_given(made.node)
            move = _MOVES.get(named, "") if isinstance(named, str) else ""
            if not move or len(names) != 1:
                continue
            if not any(True for _ in sites.mentioning([f"{names[0]}.{move}"])) and _is_left_alone(made, names[0], move):
                yield Still(made, names[0], move)


def own_averages_left(sites: Sites) -> Iterator[Still]:
    """The same of a class of the project, whose method moves its own copy towards the model that it is given."""
    for file in sites.mentioning(["deepcopy"]):
        for cls in file.classes:
            move = _move_of(cls)
            init = cls.methods.get("__init__")
            for made in callers(sites, init) if move is not None and init is not None else ():
                names = made.file.names_given(made.node)
                if len(names) != 1 or ".backward(" not in made.file.text or move is None:
                    continue
                if not any(True for _ in sites.mentioning([f"{names[0]}.{move.name}"])) and _is_only_read(
                    made, names[0]
                ):
                    yield Still(made, names[0], move.name)


def _move_of(cls: Class) -> Function | None:
    """The method that runs `for a, p in zip(self.copy.parameters(), model.parameters()): a.lerp_(p, t)`, and no other.

    `copy` is a deep copy that the constructor makes; nothing else in the class calls the method.
    """
    found = []
    for method in cls.methods.values():
        for call in cls.file.calls("zip"):
            if call.function is method and len(call.node.args) == 2 and _BLENDS.search(method.text):
                owners = [before_methods(arg, ("parameters",)) for arg in call.node.args]
                kept = own_attribute(owners[0], method)
                sets = cls.attribute(kept) if kept else []
                copied = len(sets) == 1 and "deepcopy(" in ast.unparse(sets[0][1].value or owners[0])
                if copied and last_name(owners[1]) in method.parameters and method not in found:
                    found.append(method)
    only = found[0] if len(found) == 1 and found[0].name not in ("__init__", "__call__", "forward") else None
    called = only is not None and f".{only.name}(" in cls.text
    return None if called or cls.libraries - {"torch.nn.Module", "builtins.object"} else only


def _is_only_read(made: Call, name: str) -> bool:
    """Whether nobody else gets the object: its attributes are read, and functions of the project are given them."""
    nodes = walk(made.file.module.source.tree)
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    return not any(
        isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and last_name(node) == name
        and node not in owners
        for node in nodes
    )


def _is_left_alone(made: Call, name: str, move: str) -> bool:
    harmless = _harmless(made.file).union(walk(made.node))  # `ema = EMAModel(ema.parameters())`: that is the model
    if not any(True for _ in made.file.sites.mentioning([f".{move}("])):
        harmless |= _handed_to_own(made.file)
    return not any(
        isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and last_name(node) == name
        and node not in harmless
        for node in walk(made.file.module.source.tree)
    )


def _handed_to_own(file: File) -> set[ast.AST]:
    """What functions of the project are given: none of them moves any average."""
    return {
        part
        for calls in file.walk.calls.values()
        for node, context in calls
        if isinstance(file.resolve(node.func, context), Function)
        for part in (*node.args, *(word.value for word in node.keywords))
    }


def _harmless(file: File) -> set[ast.AST]:
    """What stands where an average stays as it is: it is asked, moved to a device, saved, or called."""
    found: set[ast.AST] = set()
    for node in walk(file.module.source.tree):
        match node:
            case ast.Attribute(value=owner, attr=attr) if attr in _LEAVE_IT:
                found.add(owner)
            case ast.Call(func=func, args=args):
                found |= {func, *(args if last_name(func) in _TAKERS else ())}
            case ast.Compare(left=left, comparators=[ast.Constant(value=None)]):
                found.add(left)
            case ast.If(test=test) | ast.IfExp(test=test):
                found.add(test)
    return found
