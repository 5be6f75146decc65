"""loss-not-used: a loss of the training loop is computed, kept under a name, and never read."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.nodes import own_nodes, walk
from mlcheck.lint.sites import Context, File
from mlcheck.lint.values import live, traces_of

LOOKS_AT = "loss"


def check(facts: Facts) -> Iterator[Finding]:
    trained = {loop.node for backward in facts.backwards for loop, _ in backward.when.loops}
    files = {file.path: file for file in facts.sites.files.values()}
    told: set[ast.AST] = set()
    for loss in facts.losses:
        node, file = loss.place.node, files.get(loss.place.path)
        if node in told or file is None or not isinstance(node, ast.expr) or not _is_recorded(loss):
            continue
        names = file.names_given(node)
        scope = _scope(file, node) if len(names) == 1 and not names[0].startswith("_") else None
        if scope is None or not _is_kept(scope[0], node) or _is_read(file, scope, names[0]):
            continue
        if any(node in set(walk(loop)) for loop in trained if isinstance(loop, ast.For | ast.While)):
            told.add(node)
            yield Finding(
                f"`{names[0]}` is computed and never used: nothing learns from it",
                loss.place.location,
                help="add it to the loss that `backward()` is called on, or leave it out",
            )


def _is_recorded(loss: Loss) -> bool:
    """Whether a gradient could be asked of it."""
    calls = live(traces_of(loss.input))
    return bool(calls) and all(call.grad.kind != "off" for call in calls)


def _scope(file: File, node: ast.expr) -> tuple[ast.AST, Context] | None:
    """The innermost function around it, or the module."""
    around = ((scope, inner) for scope, inner in file.scopes() if _spans(scope, node))
    return next(((scope, inner) for scope, inner in around if any(one is node for one in own_nodes(scope))), None)


def _spans(scope: ast.AST, node: ast.expr) -> bool:
    if not isinstance(scope, ast.stmt):
        return True
    return scope.lineno <= node.lineno <= (scope.end_lineno or scope.lineno)


def _is_kept(scope: ast.AST, node: ast.expr) -> bool:
    """`loss = criterion(...)` as a statement, and not `(loss := criterion(...)).backward()`."""
    return any(isinstance(line, ast.Assign) and line.value is node for line in own_nodes(scope))


def _is_read(file: File, scope: tuple[ast.AST, Context], name: str) -> bool:
    """Whether the variable is read anywhere, or can be by other ways than its name."""
    node, context = scope
    if any(isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Store) for n in own_nodes(node)):
        return True  # `self.loss` is there for whoever has the object
    where = file.module.source.tree if context is file.walk.module else node
    if "locals()" in file.text or "globals()" in file.text or (where is not node):
        return True
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(where))
