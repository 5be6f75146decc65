"""Where a run goes on that was begun before: the epoch that its checkpoint tells, and what takes its state."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, reads_of, stores_of, walk
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.weights.checkpoint_keys import PRINTS

_EPOCHS = ("epoch", "epochs", "start_epoch")


def epochs_begun_anew(sites: Sites) -> Iterator[tuple[Place, str, Place]]:
    """`start = checkpoint["epoch"] + 1`, which nothing reads, above `for epoch in range(epochs)` that trains."""
    for call in sites.calls("torch.load"):
        names = call.file.names_given(call.node)
        nodes = call.function.nodes if call.function is not None else call.file.nodes_in(call.file.module.source.tree)
        for line in nodes if len(names) == 1 else ():
            target = line.targets[0] if isinstance(line, ast.Assign) else None
            if not isinstance(line, ast.Assign) or not isinstance(target, ast.Name) or _is_used(call, nodes, target.id):
                continue
            loop = _begins_at_zero(nodes, line) if _tells_epoch(line.value, names[0]) else None
            if loop is not None and not _is_shared(nodes, target.id):
                yield _place(call, line), target.id, _place(call, loop)


def loaded_before_made(sites: Sites) -> Iterator[tuple[Place, str, Place]]:
    """`optimizer.load_state_dict(...)` above the only lines of the function that bind `optimizer`."""
    for file in sites.mentioning([".load_state_dict("]):
        for call in file.calls("load_state_dict"):
            owner = call.owner
            scope = call.context.scope
            if not isinstance(owner, ast.Name) or call.function is None or call.loops or owner.id in scope.globals:
                continue
            bound = scope.bindings.get(owner.id, []) if scope is call.function.inner.scope else []
            certain = all(each.kind in ("value", "item", "with", "loop", "import", "from", "def") for each in bound)
            if bound and certain and all(getattr(each.node, "lineno", 0) > call.node.lineno for each in bound):
                yield _place(call, call.node), owner.id, file.place(bound[0].node, bound[0].context)


def _is_used(call: Call, nodes: list[ast.AST], name: str) -> bool:
    """Whether anything reads it; a message alone does not count where the name began as the 0 of a new run."""
    if len(stores_of(nodes, name)) == 1:
        return name in call.file.uses
    told = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) in PRINTS]
    reads = sum(
        len(reads_of(walk(node), name))
        for node in told
        if not isinstance(call.file.resolve(node.func, call.context), Function)
    )
    return call.file.uses[name] > reads


def _tells_epoch(node: ast.expr, checkpoint: str) -> bool:
    """`checkpoint["epoch"]`, one more or not."""
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        node = node.left
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)):
            return name == checkpoint and key in _EPOCHS
    return False


def _begins_at_zero(nodes: list[ast.AST], after: ast.stmt) -> ast.For | None:
    """The loop over epochs behind a line, which counts them from 0 and trains."""
    for node in nodes:
        match node:
            case ast.For(target=ast.Name(id=turn), iter=ast.Call(func=ast.Name(id="range"), args=[_])):
                text = ast.unparse(node)
                if node.lineno > after.lineno and "epoch" in turn and ("backward(" in text or "train" in text):
                    return node
    return None


def _is_shared(nodes: list[ast.AST], name: str) -> bool:
    return any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in nodes)


def _place(call: Call, node: ast.AST) -> Place:
    return call.file.place(node, call.context)


def is_for_looking(sites: Sites, load: Function) -> bool:
    """Whether all that call it do so under `torch.no_grad()`: to look at what the checkpoints make."""
    around = [
        [ast.unparse(item) for outer in call.context.outwards() if outer.kind == "with" for item in _items(outer.node)]
        for call in callers(sites, load)
    ]
    return bool(around) and all(any("no_grad" in item or "inference_mode" in item for item in each) for each in around)


def _items(node: ast.AST) -> list[ast.expr]:
    return [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
