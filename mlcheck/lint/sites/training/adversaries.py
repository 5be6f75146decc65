"""Generators and discriminators, and which way the losses of both push the scores of what is generated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites.lines import Lines
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.training.signs import Entered, Signs

_WEIGHT = pattern(r"lambda|weight|coe?f|beta|alpha|gamma|_w$|^w_|scale")
_CUTS = ("detach", "data", "clone", "requires_grad_", "to", "cuda")

Held = dict[str, frozenset[str]]


class Allied(NamedTuple):
    """The line of the loss that pushes the wrong way, that of the other one, and whether it is the generator's."""

    line: Place
    other: Place
    is_generator: bool
    discriminator: str


class _Push(NamedTuple):
    """The way that a loss pushes what a discriminator says of samples that are generated."""

    judge: str
    by_maker: bool
    entered: Entered
    lines: Lines


def held_by(sites: Sites) -> Held:
    """The last names of the models that each optimizer holds, by its own last name; `?` for one that is not told."""
    found: dict[str, frozenset[str]] = {}
    for made in sites.once(optimizers):
        given = made.argument("params", 0)
        asked = [
            node.func.value
            for node in (walk(given) if given is not None else ())
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parameters"
        ]
        owners = {last_name(node) for node in asked} | {name for node in asked for name in _kept_as(made, node)}
        for name in made.file.names_given(made.node):
            found[name] = found.get(name, frozenset()) | (owners or {"?"})
    return found


def _kept_as(made: Call, model: ast.expr) -> Iterator[str]:
    """`g` of `self.g = generator`, in the function that hands `generator.parameters()` to an optimizer."""
    for each in made.file.walk.attributes if isinstance(model, ast.Name) else ():
        if is_name(each.value, last_name(model)) and made.file.function_around(each.context) is made.function:
            yield each.target.attr


def allied(blocks: list[Lines], held: Held) -> Iterator[Allied]:
    """Both losses raise, or both lower, the scores of generated samples: in one function, or in two of one class."""
    models = frozenset().union(*held.values())
    if "?" in models or len(held) < 2:
        return
    asking = [lines for lines in blocks if any(f"{name}(" in lines.text for name in models)]
    found = [_pushes(lines, held, models) for lines in asking]
    pushes = [push for each in found if each is not None for push in each]
    for judge in dict.fromkeys(push.judge for push in pushes if None not in found):
        own = [push for push in pushes if push.judge == judge and not push.by_maker]
        theirs = [push for push in pushes if push.judge == judge and push.by_maker]
        ways = {push.entered.sign for push in own}, {push.entered.sign for push in theirs}
        if len(ways[0]) == 1 and ways[0] == ways[1] and _judges_others(own[0], models):
            lowered = ways[0] == {1}
            wrong, right = (theirs[0], own[0]) if lowered else (own[0], theirs[0])
            yield Allied(_line_of(wrong), _line_of(right), lowered, judge)


def _judges_others(push: _Push, models: frozenset[str]) -> bool:
    """Whether the discriminator is shown real samples too: an encoder and a decoder lower one loss together."""
    calls = (call for call in push.lines.all(ast.Call) if last_name(call.func) == push.judge and call.args)
    return any(not _maker(push.lines, call.args[0], models) for call in calls)


def _pushes(lines: Lines, held: Held, models: frozenset[str]) -> list[_Push] | None:
    """What the losses of these lines do; None where one is turned round where it is differentiated."""
    signs, pushes = Signs(lines, _is_positive), list[_Push]()
    given = (call for call in lines.all(ast.Call) if call.args or any(word.arg == "gradient" for word in call.keywords))
    turned = {call.func for call in given if last_name(call.func) == "backward"}  # `loss.backward(minus_one)`
    for call in lines.all(ast.Call):
        judge = last_name(call.func)
        if judge not in models or len(call.args) < 1:
            continue
        maker = _maker(lines, call.args[0], models)
        if not maker or maker == judge:
            continue
        for entered in signs.of(call) or ():
            if entered.backward in turned:
                return None
            stepped = _stepped_after(lines, entered.backward, held)
            if stepped is None or {judge, maker} <= held[stepped] or not {judge, maker} & held[stepped]:
                continue
            pushes.append(_Push(judge, maker in held[stepped], entered, lines))
    return pushes


def _maker(lines: Lines, node: ast.expr, models: frozenset[str]) -> str:
    """The model that made what the discriminator is given."""
    while True:
        node = before_methods(node, _CUTS)
        if not (isinstance(node, ast.Attribute) and node.attr == "data"):
            break
        node = node.value
    if isinstance(node, ast.Call):
        return last_name(node.func) if last_name(node.func) in models else _from_elsewhere(lines, node, models)
    if not isinstance(node, ast.Name):
        return ""
    above = [
        line
        for line in lines.all(ast.Assign)
        if line.lineno < node.lineno and any(isinstance(t, ast.Name) and t.id == node.id for t in line.targets)
    ]
    if not above and node.id in lines.parameters:
        return _from_elsewhere(lines, node, models)
    made = max(above, key=lambda line: line.lineno).value if above else None
    return _maker(lines, made, models) if made is not None and not isinstance(made, ast.Name) else ""


def _from_elsewhere(lines: Lines, node: ast.expr, models: frozenset[str]) -> str:
    """The model whose output a function returns, or every call that can be seen hands over for a parameter."""
    found = origins(lines.file, node, lines.context)
    calls = (before_methods(each.node, _CUTS) for each in found)
    made = {last_name(call.func) if isinstance(call, ast.Call) else "" for call in calls}
    return made.pop() if len(made) == 1 and made <= models else ""


def _stepped_after(lines: Lines, backward: ast.Attribute, held: Held) -> str | None:
    """The optimizer that steps next below a backward pass."""
    steps = [
        (node.lineno, last_name(node.func.value))
        for node in lines.all(ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "step" and node.lineno >= backward.lineno
    ]
    known = [(line, name) for line, name in steps if name in held]
    return min(known)[1] if known else None


def _line_of(push: _Push) -> Place:
    """The line that computes the loss."""
    loss, line = push.entered.backward.value, push.entered.backward.lineno
    above = [
        node
        for node in push.lines.all(ast.Assign)
        if isinstance(loss, ast.Name) and node.lineno <= line and any(ast.unparse(t) == loss.id for t in node.targets)
    ]
    made = max(above, key=lambda node: node.lineno) if above else push.entered.backward
    return push.lines.file.place(made, push.lines.context)


def _is_positive(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and node.value > 0
    return _WEIGHT.search(last_name(node).lower()) is not None
