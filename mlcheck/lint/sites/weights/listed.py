"""Models and state dicts put into a list in every turn of a loop that trains them: each entry is the same one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import dotted, last_name, reads_of, stores, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_TRAINS = pattern(r"\.step\(|\btrain\w*\(|\bfit\w*\(")
_MODEL = pattern(r"(?:^|[._])(?:model|net|network)$")


class Listed(NamedTuple):
    """What is put into the list, whether it is a state dict, and where."""

    name: str
    is_state: bool
    place: Place


def listed(sites: Sites) -> Iterator[Listed]:
    """`history.append(model.state_dict())` and `best.append((score, model))`, of a model that outlives the loop."""
    for file in sites.mentioning([".append("]):
        for call in file.calls("append") if "torch" in file.text else ():
            owner = call.owner
            if not call.loops or len(call.node.args) != 1 or not isinstance(owner, ast.Name):
                continue
            for part in _parts(call.node.args[0]):
                model = _model(part)
                if isinstance(part, ast.Name | ast.Attribute) and not _is_model(file, call, model):
                    continue
                if model and _lives_on(file, call, model, owner):
                    yield Listed(model, isinstance(part, ast.Call), file.place(part, call.context))


def _parts(given: ast.expr) -> list[ast.expr]:
    """The parts of `(score, model)` and of `{"weights": model.state_dict()}`."""
    if isinstance(given, ast.Tuple | ast.List):
        return given.elts
    return given.values if isinstance(given, ast.Dict) else [given]


def _model(node: ast.expr) -> str:
    """`model` of `model.state_dict()`, and of `model` itself."""
    if isinstance(node, ast.Call) and last_name(node.func) == "state_dict" and isinstance(node.func, ast.Attribute):
        return "" if node.args or node.keywords else dotted(node.func.value)
    return dotted(node)


def _is_model(file: File, call: Call, name: str) -> bool:
    """Whether its name says so, or the loop puts it into train mode and calls it."""
    loop = call.loops[0].node
    if not isinstance(loop, ast.For | ast.While):
        return False
    called = any(isinstance(node, ast.Call) and dotted(node.func) == name for node in walk(loop))
    return bool(_MODEL.search(name)) or (called and f"{name}.train()" in file.module.text_of(loop))


def _lives_on(file: File, call: Call, model: str, owner: ast.Name) -> bool:
    """Whether the innermost loop trains the model, makes neither it nor the list anew, and the list is read later."""
    loop, root = call.loops[0].node, model.partition(".")[0]
    if not isinstance(loop, ast.For | ast.While) or stores(loop, root) or stores(loop, owner.id):
        return False
    if root == "self" and any(dotted(target) == model for line in walk(loop) for target in _targets(line)):
        return False
    if not _TRAINS.search(file.module.text_of(loop)) or not _is_trained(loop, model, call.node):
        return False
    if not file.bindings(owner.id, call.context) or _is_ended(loop, call.context):
        return False
    nodes = call.function.nodes if call.function is not None else walk(file.module.source.tree)
    inside = set(walk(loop))
    return any(read not in inside for read in reads_of(nodes, owner.id))


def _targets(line: ast.AST) -> list[ast.expr]:
    return line.targets if isinstance(line, ast.Assign) else []


def _is_trained(loop: ast.AST, model: str, append: ast.Call) -> bool:
    """Whether the model is called or handed on in the loop."""
    calls = [node for node in walk(loop) if isinstance(node, ast.Call) and node is not append]
    handed = [arg for node in calls for arg in (*node.args, *(word.value for word in node.keywords))]
    return any(dotted(node.func) == model for node in calls) or any(dotted(arg) == model for arg in handed)


def _is_ended(loop: ast.AST, context: Context) -> bool:
    """Whether the loop is left right behind."""
    blocks = [outer.node for outer in context.outwards() if outer.kind == "if" and outer.node in walk(loop)]
    leaves = ast.Break | ast.Return
    return any(isinstance(line, leaves) for block in blocks for line in walk(block))
