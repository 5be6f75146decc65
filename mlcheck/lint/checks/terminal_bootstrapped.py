"""terminal-bootstrapped: the value of what follows is added to the reward of a step that nothing follows."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, reads_of, stores_of, walk
from mlcheck.lint.sites import Function
from mlcheck.lint.sites.data.transitions import DONE, stored_without_end, unread_done

LOOKS_AT = "temporal difference"
WORDS = ("gamma", "GAMMA", "discount", "DISCOUNT")
_REWARD = pattern(r"^(?:b_|batch_)?(?:r|rew|rews|rewards?)(?:_?(?:batch|tensor|t|b))?$")
_DISCOUNT = pattern(r"gamma|discount")
_OTHERWISE = pattern(r"non_?final|is not None|not_?done|terminat|truncat|(?<![a-z])n_?step|alive|survive")
_END = pattern(r"mask|done|terminal|nonterm")
_ENDLESS = ("Pendulum-v", "HalfCheetah-v", "Swimmer-v", "Reacher-v")
"""Environments in which an episode ends by its time limit alone: there what follows has a value."""


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    endless = any(True for _ in facts.sites.mentioning(_ENDLESS))
    for file in facts.sites.mentioning(WORDS):
        if "torch" not in file.text:
            continue
        for function in file.functions:
            if _DISCOUNT.search(function.text.lower()):
                yield from _mask_added(function)
                targets = [] if endless else list(_targets(function))
                facts.sites.seen[LOOKS_AT] += len(targets)
                yield from _masked_too_late(function, targets)
                yield from _unread(function, targets)
                yield from _unlike_others(function, targets)
                yield from _unread_field(function, targets)
                yield from _unstored(function, targets)


def _targets(function: Function) -> Iterator[ast.BinOp]:
    """`rewards + gamma * next_values`."""
    for node in function.nodes:
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=ast.BinOp(op=ast.Mult()) as right):
                names = {last_name(part).lower() for part in walk(right)}
                rewarded = any(_REWARD.search((last_name(part) or _field(part)).lower()) for part in walk(left))
                if rewarded and any(_DISCOUNT.search(name) for name in names):
                    yield node


def _unlike_others(function: Function, targets: list[ast.BinOp]) -> Iterator[Finding]:
    """`r[t] + gamma * v[t + 1]` in one branch, and `r[t] + gamma * v[t + 1] * masks[t + 1]` in another."""
    masked = [target for target in targets if _ends(target)]
    if not masked or _OTHERWISE.search(function.text):
        return
    for target in targets:
        others = [other for other in masked if _names(target) == _names(other) - _ends(other)]
        if others and target not in masked and not _stands_under_end(function, target):
            yield Finding(
                "The value of what follows is added where the episode has ended, too: another branch leaves it out",
                function.place(target).location,
                help=f"multiply the value of the next state by `{_factor(others[0])}`, as the other does",
                related=(function.place(others[0]).location,),
            )


def _names(node: ast.AST) -> set[str]:
    return {last_name(part) for part in walk(node) if isinstance(part, ast.Name | ast.Attribute)}


def _ends(target: ast.BinOp) -> set[str]:
    """The names in a target that say where an episode ends: `masks`, `dones`."""
    return {name for name in _names(target.right) if _END.search(name.lower())}


def _factor(target: ast.BinOp) -> str:
    parts = [part for part in walk(target.right) if isinstance(part, ast.Subscript | ast.Name | ast.Attribute)]
    return next(ast.unparse(part) for part in parts if _END.search(last_name(_whole(part)).lower()))


def _whole(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _stands_under_end(function: Function, target: ast.BinOp) -> bool:
    """Whether a branch around it asks whether the episode has ended."""
    around = [node for node in function.nodes if isinstance(node, ast.If) and target in set(walk(node))]
    return any(_END.search(name.lower()) for node in around for name in _names(node.test))


def _unread(function: Function, targets: list[ast.BinOp]) -> Iterator[Finding]:
    """`states, rewards, dones = batch`, or `for states, rewards, dones in loader`, of which nothing reads the last."""
    if len(targets) != 1 or _OTHERWISE.search(function.text):
        return
    for line in function.nodes:
        match line:
            case ast.Assign(targets=[ast.Tuple(elts=parts), *_]) | ast.For(target=ast.Tuple(elts=parts)):
                names = [part.id for part in parts if isinstance(part, ast.Name)]
            case _:
                continue
        done = next((name for name in names if DONE.search(name.lower())), "")
        if not done or not any(_REWARD.search(name.lower()) for name in names) or line.lineno > targets[0].lineno:
            continue
        if not _is_read(function, done):
            yield Finding(
                f"Nothing reads `{done}`: the value of the next state is added where the episode has ended, too",
                function.place(targets[0]).location,
                help=f"multiply the value of the next state by `(1 - {done})`",
                related=(function.place(line).location,),
            )


def _unread_field(function: Function, targets: list[ast.BinOp]) -> Iterator[Finding]:
    """`batch["reward"] + gamma * value`, where batches have a `"done"` that nothing in the program reads."""
    if len(targets) != 1 or _OTHERWISE.search(function.text):
        return
    reward = next((key for part in walk(targets[0].left) if _REWARD.search((key := _field(part)).lower())), "")
    done, place = unread_done(function.file.sites, reward) if reward else ("", None)
    if place is not None:
        yield Finding(
            f"Nothing reads `{done}` of a transition: the value of the next state is added where the episode has "
            "ended, too",
            function.place(targets[0]).location,
            help=f"multiply the value of the next state by one minus `{done}`",
            related=(place.location,),
        )


def _unstored(function: Function, targets: list[ast.BinOp]) -> Iterator[Finding]:
    """`rewards + gamma * values` of a sample of transitions that were stored without the end of the episode."""
    text = function.text
    if len(targets) != 1 or "sample" not in text.lower() or _OTHERWISE.search(text) or _END.search(text.lower()):
        return
    done, place = function.file.sites.once_of(stored_without_end, function.file)
    if place is not None:
        yield Finding(
            f"Transitions are stored without `{done}`: the value of the next state is added where the episode has "
            "ended, too",
            function.place(targets[0]).location,
            help=f"store `{done}` with them, and multiply the value of the next state by one minus it",
            related=(place.location,),
        )


def _mask_added(function: Function) -> Iterator[Finding]:
    """`rewards + (gamma * masks + values)`: the discount and the end of the episode are summands, not factors."""
    inner = {part for node in function.nodes if _is_sum(node) for part in (node.left, node.right)}
    for node in function.nodes:
        parts = _summands(node) if _is_sum(node) and node not in inner else []
        rewarded = any(_REWARD.search(last_name(part).lower()) for each in parts for part in walk(each))
        for part in parts if len(parts) > 2 and rewarded else ():
            factors = [part.left, part.right] if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult) else []
            names = [last_name(factor).lower() for factor in factors if isinstance(factor, ast.Name | ast.Attribute)]
            if len(names) == 2 and any(map(_DISCOUNT.search, names)) and any(map(_END.search, names)):
                yield Finding(
                    f"`{ast.unparse(part)}` is added to the value of the next state, which it should multiply: the "
                    "target has no discount, and goes on where the episode has ended",
                    function.place(part).location,
                    help=f"`{ast.unparse(part)} * value`",
                )


def _is_sum(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def _summands(node: ast.expr) -> list[ast.expr]:
    return [*_summands(node.left), *_summands(node.right)] if _is_sum(node) else [node]


def _field(node: ast.AST) -> str:
    """`reward` of `batch["reward"]` and `batch.reward`."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Attribute(value=ast.Name(), attr=key):
            return key
    return ""


def _is_read(function: Function, name: str) -> bool:
    """Whether anything but its own conversion reads a variable: `dones = torch.tensor(dones)`."""
    converts = [
        line
        for line in function.nodes
        if isinstance(line, ast.Assign) and any(is_name(target, name) for target in line.targets)
    ]
    aside = {part for line in converts for part in walk(line.value)}
    return any(read not in aside for read in reads_of(function.nodes, name)) or "locals()" in function.text


def _masked_too_late(function: Function, targets: list[ast.BinOp]) -> Iterator[Finding]:
    """`q_next[dones] = 0.0` below the target that has taken `q_next`, and nothing takes it again."""
    for line in function.nodes:
        match line:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id=values), slice=index)], value=ast.Constant(value=0)
            ) if any(DONE.search(last_name(part).lower()) for part in walk(index)):
                pass
            case _:
                continue
        used = [node for node in targets if node.lineno < line.lineno and reads_of(walk(node), values)]
        later = [read for read in reads_of(function.nodes, values) if read.lineno > line.lineno]
        again = any(isinstance(node, ast.For | ast.While) and line in walk(node) for node in function.nodes)
        set_between = [n for n in stores_of(function.nodes, values) if used and n.lineno > used[0].lineno]
        if used and not later and not again and not set_between:
            yield Finding(
                f"`{values}` is cleared where the episode has ended after the target was computed from it: "
                "the target keeps the value of what never follows",
                function.place(line).location,
                help="move this line above the target",
                related=(function.place(used[0]).location,),
            )
