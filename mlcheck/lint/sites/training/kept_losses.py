"""Losses that are added up with their graphs, as they are written: `total += loss` beside `loss.backward()`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_attribute, is_length, is_name, last_name, stores, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.evaluation.without_gradients import switches_off
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.added_losses import added_by, averages

_CUTS = pattern(r"\bdetach_\(|set_grad_enabled\(|requires_grad(?!=False\b)")
_EMPTY = ("[]", "list()", "deque()", "collections.deque()")
_EPOCHS = frozenset(["range", "trange"])


class KeptLoss(NamedTuple):
    """The sum or list, where it takes the loss, and the backward pass that proves the graph."""

    file: File
    context: Context
    name: str
    adding: ast.stmt
    backward: ast.stmt


def kept_losses(sites: Sites) -> Iterator[KeptLoss]:
    """A number that is begun before the epoch, and in each turn gets the very loss that is differentiated there.

    The backward pass frees the graph, so nothing can differentiate the sum later: it is kept for nothing.
    """
    for file in sites.mentioning([".backward("]):
        if "torch" not in file.text:
            continue
        yield from _kept_by_objects(file)
        for loop in for_loops(file):
            text = file.module.text_of(loop.node)
            adds = "+" in text or ".append(" in text
            if adds and ".backward(" in text and ".step(" in text and not _CUTS.search(text):
                yield from _kept(loop)


def _kept(loop: LoopSite) -> Iterator[KeptLoss]:
    body = list(_opened(loop.node.body))
    losses = {number: _differentiated(line) for number, line in enumerate(body)}
    holders = {number: holder for number, line in enumerate(body) if (holder := _holder(line))}
    for at, line in enumerate(body):
        name, loss = added_by(line)
        if not isinstance(line, ast.Expr) and any(line in _opened(block.body) for block in _quiet(loop.node.body)):
            continue  # a sum that is formed without gradients has no graph
        whole = isinstance(line, ast.Expr) and loss in holders.values() and not _is_changed(loop.node, loss)
        found = losses | holders if whole else losses
        for number in [number for number, each in found.items() if each and each == loss]:
            low, high = sorted([at, number])
            if any(stores(between, loss) for between in body[low + 1 : high]):
                continue
            if any(stores(each, name) for each in body if each is not line):
                continue
            is_sum = not isinstance(line, ast.Expr)
            goes_on = _is_epoch(loop, body) or (averages(line) and _is_outermost(loop, body))
            if goes_on and (_begins_as_number if is_sum else _begins_as_list)(loop, name):
                yield KeptLoss(loop.file, loop.context, name, line, body[number])


def _kept_by_objects(file: File) -> Iterator[KeptLoss]:
    """`self.losses.append(loss)` in a method that makes a whole step with it; nobody ever empties the list."""
    for function in file.functions:
        body = function.node.body
        if function.cls is None or not any(map(_is_step, body)):
            continue
        losses = {loss: line for line in body if (loss := _differentiated(line))}
        for line in body:
            match line:
                case ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(value=ast.Attribute(attr=name) as kept, attr="append"),
                        args=[ast.Name(id=loss)],
                    )
                ) if loss in losses and is_attribute(kept, function.receiver, name):
                    stored = [each for each in body if stores(each, loss)]
                    if len(stored) == 1 and _grows_for_ever(function.cls, name):
                        yield KeptLoss(file, function.inner, ast.unparse(kept), line, losses[loss])


def _grows_for_ever(cls: Class, name: str) -> bool:
    """Whether a constructor makes the list, empty, and nothing anywhere takes from it or makes it anew."""
    sets = cls.attributes.get(name, [])
    empty = [function for function, each in sets if each.value is not None and ast.unparse(each.value) in _EMPTY]
    if [function.name for function in empty] != ["__init__"] or len(sets) != 1:
        return False
    emptied = re.compile(rf"\.{name}(?:\.(?:clear|pop|popleft)\(|\[:\])|\bdel\b[^\n]*\.{name}\b|['\"]{name}['\"]")
    begun = re.compile(rf"\.{name}\s*=[^=]")
    texts = [file.text for file in cls.file.sites.mentioning([name], tests=True)]
    return not any(map(emptied.search, texts)) and sum(len(begun.findall(text)) for text in texts) <= 1


def _differentiated(line: ast.stmt) -> str:
    """`loss` of `loss.backward()` and `scaler.scale(loss).backward()`, which free the graph; `losses[-1]` too."""
    owner = _goes_back_from(line)
    last = isinstance(owner, ast.Subscript) and isinstance(owner.value, ast.Name) and ast.unparse(owner.slice) == "-1"
    return ast.unparse(owner) if owner is not None and (last or isinstance(owner, ast.Name)) else ""


def _holder(line: ast.stmt) -> str:
    """`output` of `output["loss"].backward()` and `output.loss.backward()`."""
    owner = _goes_back_from(line)
    held = owner.value if isinstance(owner, ast.Attribute | ast.Subscript) and not _differentiated(line) else None
    return held.id if isinstance(held, ast.Name) and held.id != "self" else ""


def _is_changed(loop: ast.For, holder: str) -> bool:
    """Whether something in the loop may take the graph out of it: `output["loss"] = ...`, `output.pop("loss")`."""
    changes = rf"\b{holder}(?:\[[^\]]*\]|\.\w+) = |\bdel {holder}\b|\b{holder}\.(?:pop|update|clear)\(|detach"
    return re.search(changes, ast.unparse(loop)) is not None


def _goes_back_from(line: ast.stmt) -> ast.expr | None:
    call = line.value if isinstance(line, ast.Expr) else None
    if not isinstance(call, ast.Call) or last_name(call.func) != "backward" or call.args or call.keywords:
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Call) and last_name(owner.func) == "scale" and len(owner.args) == 1:
        owner = owner.args[0]
    return owner


def _opened(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, with those under `with` in its place."""
    for line in block:
        if isinstance(line, ast.With):
            yield from _opened(line.body)
        else:
            yield line


def _quiet(block: list[ast.stmt]) -> Iterator[ast.With]:
    for line in block:
        if isinstance(line, ast.With):
            yield from [line] if switches_off(line) else _quiet(line.body)


def _begins_as_list(loop: LoopSite, name: str) -> bool:
    """Whether it is an empty list before the loop, which nothing takes from and nothing makes one tensor of."""
    made = [line for line in loop.before if stores(line, name)]
    match made[-1] if made else None:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            held = [value for target, value in zip(targets, values, strict=False) if is_name(target, name)]
        case ast.Assign(targets=[ast.Name()], value=value):
            held = [value]
        case _:
            held = []
    taken = re.compile(rf"\b{name}\.(?:clear|pop|popleft)\(|\bdel {name}\b|\bstack\({name}\b|\bcat\({name}\b")
    return [ast.unparse(value) for value in held] == ["[]"] and not taken.search(ast.unparse(loop.scope))


def _begins_as_number(loop: LoopSite, name: str) -> bool:
    """Whether the variable of this function is a number before the loop, in the block that the loop stands in."""
    if any(isinstance(node, ast.Global | ast.Nonlocal) for node in walk(loop.scope)):
        return False
    made = [line for line in loop.before if stores(line, name)]
    value = made[-1].value if made and isinstance(made[-1], ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Tuple) and isinstance(made[-1], ast.Assign):
        return all(_is_number(each) for each in value.elts)
    return _is_number(value)


def _is_number(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _is_epoch(loop: LoopSite, body: list[ast.stmt]) -> bool:
    """Whether the loop goes over data, steps in each turn, and stands in none but loops that count epochs."""
    if _counts(loop.node.iter) or _asks_for_more(loop.node) or not any(map(_is_step, body)):
        return False
    around = [node for node in loop.file.nodes_in(loop.scope) if isinstance(node, ast.For | ast.While)]
    outer = [node for node in around if node is not loop.node and loop.node in walk(node)]
    return all(isinstance(node, ast.For) and _counts(node.iter) and not _draws(node, loop.node) for node in outer)


def _is_outermost(loop: LoopSite, body: list[ast.stmt]) -> bool:
    """Whether it steps in each turn, and no other loop is around it: it is the training."""
    around = (node for node in loop.file.nodes_in(loop.scope) if isinstance(node, ast.For | ast.While))
    return any(map(_is_step, body)) and not any(node is not loop.node and loop.node in walk(node) for node in around)


def _counts(over: ast.expr) -> bool:
    """`range(epochs)`, `trange(epochs)`, `tqdm(range(epochs))`; not `range(0, len(data), batch_size)`."""
    if isinstance(over, ast.Call) and len(over.args) == 3 and is_length(over.args[1]):
        return False
    return isinstance(over, ast.Call) and (
        last_name(over.func) in _EPOCHS or any(_counts(each) for each in over.args[:1])
    )


def _is_step(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) and last_name(line.value.func) == "step"


def _draws(outer: ast.For, inner: ast.For) -> bool:
    """Whether each turn of the outer loop brings what the inner one goes over: a task, a group, a window."""
    read = {node.id for node in walk(inner.iter) if isinstance(node, ast.Name)}
    made = {name for line in (outer.target, *outer.body) if line is not inner for name in read if stores(line, name)}
    return bool(made) or _asks_for_more(outer)


def _asks_for_more(loop: ast.For) -> bool:
    """`next(source)` in its turns: what it goes over is not all of the data."""
    return any(isinstance(node, ast.Call) and last_name(node.func) == "next" for node in walk(loop))
