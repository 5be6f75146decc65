"""accumulation-not-averaged: the gradients of several batches are summed, and nothing divides them."""

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward, Grads, Place, Step
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import File
from mlcheck.lint.sites.training.library_losses import is_loss_of_library
from mlcheck.lint.training import steps_by_choice
from mlcheck.lint.values import Object

LOOKS_AT = "accumulated step"
_SHRINKS = pattern(r"^[ \t]*(\w+) (?:= \1 /|/=)", re.MULTILINE)
_DIVIDING = ("div", "div_", "true_divide", "mul", "mul_", "sum", "accumulate", "no_sync", "step_optimizer")
_TRAINING = ("backward", "step", "zero_grad", "scale", "unscale_")
_GRADIENTS = pattern(r"\b(?!\w*accum)\w*grad")
_REPORTS = pattern(r"^print$|^tqdm\.|\blog\w*\.|\.(?:log|info|debug|append|update|add_scalar|set_\w+)$")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len({step.place.spot for step in steps_by_choice(facts).values()})
    files = {file.path: file for file in facts.sites.files.values()}
    yield from _divided_too_late(facts)
    steps = steps_by_choice(facts)
    for step in facts.steps:
        for grads in step.grads:
            choice, loop = grads.choice, grads.loop
            counted = _is_counted(step, grads)
            if grads.place is None or loop is None or (choice is None and not counted):
                continue
            clipped = _is_clipped(facts, step, step.when.loops[-1][0].node if counted else loop)
            if not _is_plain(facts, step, clipped):
                continue
            if choice is not None and (step.key, choice.spot, not choice.holds) in steps:
                continue
            functions = dict.fromkeys([*_functions(files, grads.place), *_functions(files, step.place)])
            around = [loop, *functions]
            if counted:
                around = [loop, *(node for node in functions if not any(part is loop for part in walk(node)))]
            if _is_mean(facts, grads) and not any(map(_divides, around)):
                grows = "norm that is clipped" if clipped else "step"
                yield Finding(
                    f"The gradients of several batches add up here, and nothing divides them: the {grows} grows with "
                    "their number",
                    grads.place.location,
                    help="divide the loss by the number of batches that make one step",
                    related=(step.place.location,),
                )


def _is_counted(step: Step, grads: Grads) -> bool:
    """`for _ in range(accumulation_steps): ... backward()`, and beneath that loop, in another, a step."""
    outer = [loop.node for loop, _ in step.when.loops]
    if grads.loop in outer or grads.choice is not None or not isinstance(grads.loop, ast.For):
        return False
    over = grads.loop.iter
    named = isinstance(over, ast.Call) and last_name(over.func) in ("range", "trange") and "accum" in ast.unparse(over)
    return named and any(grads.loop in walk(loop) for loop in outer)


def _divided_too_late(facts: Facts) -> Iterator[Finding]:
    """`loss.backward()`, and beneath it `loss = loss / every`, where `i % every` says when to step."""
    for file in facts.sites.mentioning([".backward("]):
        shrunk = set(_SHRINKS.findall(file.text))
        for call in file.calls("backward") if shrunk else ():
            loop, owner = call.loops[0].node if call.loops else None, getattr(call.node.func, "value", None)
            if loop is None or not isinstance(owner, ast.Name) or call.node.args or owner.id not in shrunk:
                continue
            periods = {ast.unparse(node.right) for node in walk(loop) if _is_remainder(node)}
            divided = [line for line in walk(loop) if _divided_by(line, owner.id) in periods]
            if len(divided) == 1 and divided[0] in _beneath(loop, call.node):
                yield Finding(
                    f"`{owner.id}` is divided after its backward pass: the gradients are those of the whole loss",
                    file.place(divided[0], call.context).location,
                    help="divide it before `backward()`",
                    related=(call.place.location,),
                )


def _is_remainder(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _divided_by(line: ast.AST, name: str) -> str:
    """`n` of `loss = loss / n` and `loss /= n`."""
    match line:
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.BinOp(left=ast.Name(id=old), op=ast.Div(), right=by)):
            return ast.unparse(by) if target == old == name else ""
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Div(), value=by):
            return ast.unparse(by) if target == name else ""
    return ""


def _beneath(loop: ast.AST, call: ast.Call) -> list[ast.stmt]:
    """The statements after that of a call, in its block."""
    for node in walk(loop):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list):
                for number, line in enumerate(block):
                    if isinstance(line, ast.Expr) and line.value is call:
                        return block[number + 1 :]
    return []


def _is_plain(facts: Facts, step: Step, clipped: bool) -> bool:
    """SGD, whose step is as long as the gradient, with a learning rate that is not divided.

    Adam rescales what it gets, and what is clipped to a norm is not the same multiple of it at every step.
    """
    made = facts.training.optimizers.get(step.key)
    if made is None or _divides(made.place.node):
        return False
    return made.type == "torch.optim.SGD" or (clipped and made.type in ("torch.optim.Adam", "torch.optim.AdamW"))


def _is_clipped(facts: Facts, step: Step, loop: ast.AST) -> bool:
    """Whether the norm of the gradients is clipped in the loop, or in the method that steps."""
    first, last = getattr(loop, "lineno", 0), getattr(loop, "end_lineno", 0)
    places = [clip.place for clip in facts.clips if "norm" in clip.name]
    here = [place for place in places if place.path == step.place.path]
    own = "." in step.place.symbol and any(place.symbol == step.place.symbol for place in here)
    return own or any(first < place.spot[1] <= last for place in here)


def _functions(files: dict[str, File], place: Place) -> Iterator[ast.AST]:
    """The function that the place stands in."""
    file = files.get(place.path)
    for function in file.functions if file is not None else ():
        if function.node.lineno <= place.spot[1] <= (function.node.end_lineno or 0):
            yield function.node


def _divides(code: ast.AST) -> bool:
    """Whether anything is divided or scaled there, be it what it may, but for what is only reported."""
    nodes = walk(code)
    dividing = [node for node in nodes if _is_division(node)]
    return bool(dividing) and not set(dividing) <= set(_reported(nodes))


def _is_division(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.Div | ast.Mult)
    if isinstance(node, ast.Attribute):
        return node.attr in _DIVIDING or "weight" in node.attr
    return isinstance(node, ast.keyword) and node.arg == "reduction"


def _reported(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """What stands in the printing, returning and summing up of values that no backward pass depends on."""
    lines = [node for node in nodes if isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Expr)]
    training = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) in _TRAINING]
    if not training:
        for line in lines:
            if isinstance(line, ast.Expr) and _reports(line, set()):
                yield from walk(line)
        return
    needed = {name.id for node in training for name in walk(node) if isinstance(name, ast.Name)}
    gives = {line: _gives(line) for line in lines}
    left = found = lines
    while found:
        found = [line for line in left if gives[line] & needed or _GRADIENTS.search(ast.unparse(line))]
        needed |= {name.id for line in found for name in walk(line) if isinstance(name, ast.Name)}
        left = [line for line in left if line not in found]
    for line in lines:
        if isinstance(line, ast.Return) or _reports(line, needed) or (gives[line] and not gives[line] & needed):
            yield from walk(line)
    for node in nodes:
        if isinstance(node, ast.If | ast.While):
            yield from walk(node.test)


def _reports(line: ast.AST, needed: set[str]) -> bool:
    """`print(...)`, `history.append(...)` of a list that no backward pass needs."""
    called = line.value.func if isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) else None
    if called is None or any(isinstance(name, ast.Name) and name.id in needed for name in walk(called)):
        return False
    return _REPORTS.search(ast.unparse(called)) is not None


def _gives(line: ast.AST) -> set[str]:
    """The names that a line gives a value; nothing where it may give something else as well."""
    targets = line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AugAssign) else []
    parts = [part for target in targets for part in ([target] if isinstance(target, ast.Name) else walk(target))]
    if any(isinstance(part, ast.Attribute) for part in parts):
        return set()
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _is_mean(facts: Facts, grads: Grads) -> bool:
    """Whether the loss behind the backward is known, and takes the mean as losses do by default."""
    calls = {call for backward in facts.backwards if backward.place == grads.place for call in backward.forwards}
    inside = {spot for call in calls if (spot := _forward_of(call))}
    known = [
        loss
        for loss in facts.losses
        if (loss.place.path, loss.place.symbol) in inside or not calls.isdisjoint(getattr(loss.input, "traces", ()))
    ]
    if not known and grads.place is not None:
        backward = facts.sites.call_at(grads.place)
        return backward is not None and is_loss_of_library(backward)
    return bool(known) and not any({"reduction", "size_average", "reduce", "**"} & set(loss.settings) for loss in known)


def _forward_of(call: Forward) -> tuple[str, str] | None:
    """File and name of the `forward` that is called, which may make the loss: `logits, loss = model(x, y)`."""
    cls = call.module.cls if isinstance(call.module, Object) else None
    forward = cls.find("forward") if cls is not None else None
    return (forward.module.source.path, forward.qualname) if forward is not None else None
