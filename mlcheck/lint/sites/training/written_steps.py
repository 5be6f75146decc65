"""Training steps as they are written: what the order of statements proves, whatever model and optimizer are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, stores, walk
from mlcheck.lint.sites.blocks import blocks
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import around, optimizers
from mlcheck.lint.sites.training.plain_optimizers import is_of_project, is_plain_optimizer
from mlcheck.lint.sites.training.reaching import CLEARS, COMPUTES, clearing, computing, stepping

_SCHEDULES = "torch.optim.lr_scheduler."
_IDLE = frozenset(["zero_grad", "param_groups", "state_dict", "load_state_dict"])
_UPDATES = pattern(r"train|step|update|learn|optim|grad|fit|run|scaler|engine", re.IGNORECASE)
_BY_HAND = pattern(r"\.grad\b(?!\s*=\s*None)|\blocals\(")
_ENDS = (ast.Return, ast.Break, ast.Raise)


class _Turn(NamedTuple):
    """A clearing and the step behind it in one block, and the statements before, between and behind them."""

    clear: Call
    step: Call
    before: list[ast.stmt]
    between: list[ast.stmt]
    behind: list[ast.stmt]


def cleared_between(sites: Sites) -> Iterator[tuple[Call, Call]]:
    """`loss.backward(); optimizer.zero_grad(); optimizer.step()` in one block: the clearing and the step."""
    for turn in _cleared_and_stepped(sites):
        if _is_behind_backward(turn) or _is_before_backward(turn):
            yield turn.clear, turn.step


def _is_behind_backward(turn: _Turn) -> bool:
    owner = _owner(turn.clear.node)
    for line in reversed(turn.before):
        if _is_call(line, "backward"):
            return True
        if _mentions(line, owner) or _nodes_of(line, "step", "zero_grad") or _UPDATES.search(ast.unparse(line)):
            return False
    return False


def _is_before_backward(turn: _Turn) -> bool:
    """`loss = ...; optimizer.zero_grad(); optimizer.step(); loss.backward()`: the next turn clears what is computed."""
    owner = _owner(turn.clear.node)
    if any(owner in map(ast.unparse, call.args) for call in _all(turn.between) if isinstance(call, ast.Call)):
        return False
    for line in turn.behind:
        if _is_call(line, "backward") and isinstance(line, ast.Expr) and isinstance(line.value, ast.Call):
            return any(stores(made, _owner(line.value)) for made in turn.between or turn.before)
        if not isinstance(line, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr) or _mentions(line, owner):
            return False
    return False


def stepped_on_nothing(sites: Sites) -> Iterator[tuple[Call, Call]]:
    """`optimizer.zero_grad(); loss = ...; optimizer.step()`, and nothing there that computes gradients."""
    for turn in _cleared_and_stepped(sites):
        loop = turn.clear.loops[0].node if turn.clear.loops else None
        if loop is None or not _is_plain(_owner(turn.clear.node), turn.between):
            continue
        if is_plain_optimizer(turn.clear) and not COMPUTES.search(ast.unparse(loop)):
            yield turn.clear, turn.step


def _is_plain(owner: str, between: list[ast.stmt]) -> bool:
    """Whether something is computed here, by no call that may train on its own or that is given the optimizer."""
    for call in (node for node in _all(between) if isinstance(node, ast.Call)):
        if _UPDATES.search(last_name(call.func)) or owner in map(ast.unparse, call.args):
            return False
    return any(isinstance(line, ast.Assign) and isinstance(line.value, ast.Call) for line in between)


def _cleared_and_stepped(sites: Sites) -> Iterator[_Turn]:
    """Clearings in loops and functions, and the step behind each with nothing between that computes gradients."""
    reaching = sites.once(computing)
    for file in sites.mentioning([".zero_grad("]):
        steps = {id(call.node): call for call in file.calls("step")}
        for clear in file.calls("zero_grad"):
            around_it = clear.loops[0].node if clear.loops else clear.function.node if clear.function else None
            owner = _owner(clear.node)
            if around_it is None or not owner or is_of_project(clear):
                continue
            block, index = _place(around_it, clear.node)
            for number, line in enumerate(block[index + 1 :], index + 1):
                if _is_step_of(line, owner):
                    between = block[index + 1 : number]
                    step = steps.get(id(line.value)) if isinstance(line, ast.Expr) else None
                    calls = [node for node in _all(between) if isinstance(node, ast.Call)]
                    if step is not None and not (
                        calls and (reaching.unnamed or reaching.by(file, clear.context, calls))
                    ):
                        yield _Turn(clear, step, block[:index], between, block[number + 1 :])
                    break
                text = file.module.text_of(line)
                if COMPUTES.search(text) or (owner.partition(".")[0] in text and _is_bound(line, owner)):
                    break


def never_cleared(sites: Sites) -> Iterator[tuple[Call, Call]]:
    """A backward pass and a step of torch's optimizer in each turn of a loop, in which nothing clears gradients."""
    reaching = sites.once(clearing)
    for file in sites.mentioning([".backward("]):
        for step in file.calls("step"):
            loop = step.loops[0].node if step.loops else None
            if not isinstance(loop, ast.For | ast.While) or step.node.args or step.node.keywords or reaching.unnamed:
                continue
            if CLEARS.search(file.module.text_of(loop)):
                continue
            always = {id(node) for line in straight(loop.body) for node in walk(line)}
            if id(step.node) not in always or any(isinstance(line, _ENDS) for line in loop.body):
                continue
            if _is_bound(loop, _owner(step.node)):
                continue
            first = _first_above(step, loop, file.calls("backward"))
            others = [node for node in walk(loop) if node is not step.node]
            if first is not None and is_plain_optimizer(step) and not reaching.by(file, step.context, others):
                yield first, step


def _first_above(step: Call, loop: ast.AST, backwards: list[Call]) -> Call | None:
    """The first backward pass above a step in the loop around it, in whatever branch or loop within it."""
    found = [call for call in backwards if any(around.node is loop for around in call.loops)]
    if any(call.function is not step.function for call in found):
        return None
    above = [call for call in found if call.node.lineno <= step.node.lineno]
    return min(above, key=lambda call: call.node.lineno) if len(above) == len(found) and above else None


def never_stepped(sites: Sites) -> Iterator[tuple[Call, Call]]:
    """A backward pass in a loop, and the optimizer that is made for it and has no use; nothing else there steps."""
    reaching = sites.once(stepping)
    for made in sites.once(optimizers):
        names = made.file.names_given(made.node)
        if len(names) != 1 or made.loops or made.file.is_test or reaching.unnamed or made.context.kind == "class":
            continue
        node = around(made)
        text = made.file.module.text_of(node) if isinstance(node, ast.stmt) else made.file.text
        if (
            ".backward(" not in text
            or f"{names[0]}.step" in text
            or f"step({names[0]}" in text
            or _BY_HAND.search(text)
        ):
            continue
        if made.function is None and _is_imported(made, names[0]):
            continue
        nodes = walk(node)
        if any(isinstance(each, ast.Global | ast.Nonlocal | ast.Yield) for each in nodes):
            continue
        if not _is_idle(made, names[0], nodes) or reaching.by(made.file, made.context, nodes):
            continue
        inside = {id(each) for each in nodes}
        if any(not _moves_rate(call) for call in made.file.calls("step") if id(call.node) in inside):
            continue
        backwards = [call for call in made.file.calls("backward") if id(call.node) in inside and call.loops]
        yield from ((call, made) for call in backwards[:1])


def _is_imported(made: Call, name: str) -> bool:
    """Whether another file may use what this one has at its top."""
    asked = re.compile(rf"\bimport\b[^\n]*\b{re.escape(name)}\b|\.{re.escape(name)}\b|import \*")
    return any(asked.search(file.text) for file in made.file.sites.files.values() if file is not made.file)


def _is_idle(made: Call, name: str, nodes: list[ast.AST]) -> bool:
    """Whether the variable is bound here, and read for no more than its rates and the clearing of gradients."""
    harmless: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in _IDLE:
            harmless.add(id(node.value))
        elif isinstance(node, ast.Call):
            named = made.file.resolve(node.func, made.context)
            if isinstance(named, str) and named.startswith(_SCHEDULES):
                harmless |= {id(given) for given in (*node.args, *(keyword.value for keyword in node.keywords))}
    uses = [node for node in nodes if is_name(node, name)]
    bound = [node for node in uses if isinstance(node.ctx, ast.Store)]
    return bool(bound) and all(id(node) in harmless for node in uses if isinstance(node.ctx, ast.Load))


def _moves_rate(step: Call) -> bool:
    func = step.node.func
    found = origins(step.file, func.value, step.context) if isinstance(func, ast.Attribute) else []
    return bool(found) and all(origin.name.startswith(_SCHEDULES) for origin in found)


def straight(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs in each turn."""
    for line in block:
        if isinstance(line, ast.With):
            yield from straight(line.body)
        elif not isinstance(line, ast.If | ast.For | ast.While | ast.Try | ast.FunctionDef):
            yield line


def _is_bound(loop: ast.AST, owner: str) -> bool:
    """Whether the loop sets what is stepped, or what that is an attribute of."""
    targets = [node for node in walk(loop) if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)]
    return any(owner == text or owner.startswith((f"{text}.", f"{text}[")) for text in map(ast.unparse, targets))


def _place(around: ast.AST, node: ast.Call) -> tuple[list[ast.stmt], int]:
    """The block below a statement of which the call is one statement, and which; an empty one where it is none."""
    for block in blocks(around):
        for index, line in enumerate(block):
            if isinstance(line, ast.Expr) and line.value is node:
                return block, index
            if line.lineno <= node.lineno <= (line.end_lineno or 0):
                return _place(line, node)
    return [], 0


def _is_call(line: ast.stmt, name: str) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) and last_name(line.value.func) == name


def _is_step_of(line: ast.stmt, owner: str) -> bool:
    """`optimizer.step()`, or `scaler.step(optimizer)`."""
    if not _is_call(line, "step") or not isinstance(line, ast.Expr) or not isinstance(line.value, ast.Call):
        return False
    given = [ast.unparse(argument) for argument in line.value.args]
    return given == [owner] or (not given and _owner(line.value) == owner and not line.value.keywords)


def _owner(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _mentions(line: ast.stmt, owner: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(owner)}\b", ast.unparse(line)) is not None


def _nodes_of(line: ast.stmt, *names: str) -> list[ast.Call]:
    return [node for node in walk(line) if isinstance(node, ast.Call) and last_name(node.func) in names]


def _all(lines: list[ast.stmt]) -> list[ast.AST]:
    return [node for line in lines for node in walk(line)]
