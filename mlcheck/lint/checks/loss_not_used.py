"""loss-not-used: a loss of the training loop is computed and never read, or learned for the last batch alone."""

import ast
from collections.abc import Callable, Iterator
from functools import cache

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Loss
from mlcheck.lint.nodes import is_name, own_nodes, walk
from mlcheck.lint.sites import File
from mlcheck.lint.sites.training.last_batch_steps import last_batch_steps
from mlcheck.lint.sites.training.unread_answers import Unread, unread_answers
from mlcheck.lint.sites.training.unread_losses import unread_losses
from mlcheck.lint.values import live, traces_of

LOOKS_AT = "loss"

Nodes = Callable[[ast.AST], list[ast.AST]]


def check(facts: Facts) -> Iterator[Finding]:
    trained = {loop.node for backward in facts.backwards for loop, _ in backward.when.loops}
    files = {file.path: file for file in facts.sites.files.values()}
    told: set[ast.AST] = set()
    own = cache(lambda scope: list(own_nodes(scope)))  # of a function with many losses, walked once
    for loss in facts.losses:
        node, file = loss.place.node, files.get(loss.place.path)
        if node in told or file is None or not isinstance(node, ast.expr) or not _is_recorded(loss):
            continue
        names = file.names_given(node)
        scope = _scope(file, node, own) if len(names) == 1 and not names[0].startswith("_") else None
        if scope is None or not _is_kept(own(scope), node) or _is_read(file, scope, names[0], own):
            continue
        if any(node in set(walk(loop)) for loop in trained if isinstance(loop, ast.For | ast.While)):
            told.add(node)
            yield Finding(
                f"`{names[0]}` is computed and never used: nothing learns from it",
                loss.place.location,
                help="add it to the loss that `backward()` is called on, or leave it out",
            )
    for made, name, backward in unread_losses(facts.sites):
        if made.node not in told:
            told.add(made.node)
            yield Finding(
                f"`{name}` is computed and never used: nothing learns from it",
                made.location,
                help="add it to the loss that `backward()` is called on, or leave it out",
                related=(backward.location,),
            )
    for unread in _returned(facts):
        yield Finding(
            f"`{unread.name}` is computed and never used: nothing learns from it",
            unread.call.place.location,
            help="add it to the loss that `backward()` is called on, or leave it out",
        )
    for last in last_batch_steps(facts.sites):
        file, context = last.loop.file, last.loop.context
        yield Finding(
            f"`{last.name}` is that of the last batch here: all others that the loop computed are never learned",
            file.place(last.learned, context).location,
            help="move the backward pass and the step into the loop",
            related=(file.place(last.line, context).location,),
        )


def _returned(facts: Facts) -> Iterator[Unread]:
    """Losses that a function returns beside others, and that whoever learns from these does not read."""
    told: set[ast.AST] = set()
    for loss in facts.losses:
        call = facts.sites.call_at(loss.place) if loss.place.node not in told else None
        function = call.function if call is not None and not call.file.is_test else None
        if function is not None and (function.name == "forward" or _is_recorded(loss)):
            told.add(loss.place.node)
            yield from unread_answers(function, loss.place.node)


def _is_recorded(loss: Loss) -> bool:
    """Whether a gradient could be asked of it."""
    calls = live(traces_of(loss.input))
    return bool(calls) and all(call.grad.kind != "off" for call in calls)


def _scope(file: File, node: ast.expr, own: Nodes) -> ast.AST | None:
    """The innermost function around it, or the module."""
    around = (scope for scope, _ in file.scopes() if _spans(scope, node))
    return next((scope for scope in around if any(one is node for one in own(scope))), None)


def _spans(scope: ast.AST, node: ast.expr) -> bool:
    if not isinstance(scope, ast.stmt):
        return True
    return scope.lineno <= node.lineno <= (scope.end_lineno or scope.lineno)


def _is_kept(own: list[ast.AST], node: ast.expr) -> bool:
    """`loss = criterion(...)` as a statement, and not `(loss := criterion(...)).backward()`, nor a warm-up run."""
    for line in own:
        for block in (getattr(line, "body", None), getattr(line, "orelse", None)) if isinstance(line, ast.If) else ():
            if block and isinstance(block[-1], ast.Continue) and any(n is node for part in block for n in walk(part)):
                return False
    return any(isinstance(line, ast.Assign) and line.value is node for line in own)


def _is_read(file: File, scope: ast.AST, name: str, own: Nodes) -> bool:
    """Whether the variable is read or deleted anywhere, or can be read by other ways than its name."""
    if any(isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Store) for n in own(scope)):
        return True  # `self.loss` is there for whoever has the object
    if any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in own(scope)):
        return True
    if any(word in file.text for word in ("locals()", "globals()", "vars()")):
        return True
    return any(_reads(node, name) for node in own(scope)) or any(_reads(node, name) for node in walk(scope))


def _reads(node: ast.AST, name: str) -> bool:
    return is_name(node, name) and not isinstance(node.ctx, ast.Store)
