"""Generators and discriminators, and which way the losses of both push the scores of what is generated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.lines import Lines
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.training.signs import Entered, Signs

_WEIGHT = pattern(r"lambda|weight|coe?f|beta|alpha|gamma|_w$|^w_|scale")
_CUTS = ("detach", "data", "clone", "requires_grad_", "to", "cuda")

Held = dict[str, frozenset[str]]


class Allied(NamedTuple):
    """The line of the loss that pushes the wrong way, that of the other one, and whether it is the generator's."""

    line: ast.AST
    other: ast.AST
    is_generator: bool
    discriminator: str


def held_by(sites: Sites) -> Held:
    """The last names of the models that each optimizer holds, by its own last name; `?` for one that is not told."""
    found: dict[str, frozenset[str]] = {}
    for made in sites.once(optimizers):
        given = made.argument("params", 0)
        owners = {
            last_name(node.func.value)
            for node in (walk(given) if given is not None else ())
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parameters"
        }
        for name in made.file.names_given(made.node):
            found[name] = found.get(name, frozenset()) | (owners or {"?"})
    return found


def allied(lines: Lines, held: Held) -> Iterator[Allied]:
    """Both losses raise, or both lower, the scores of generated samples."""
    models = frozenset().union(*held.values())
    if "?" in models or len(held) < 2:
        return
    signs = Signs(lines, _is_positive)
    pushed: dict[str, dict[bool, list[Entered]]] = {}
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
                return
            stepped = _stepped_after(lines, entered.backward, held)
            if stepped is None or {judge, maker} <= held[stepped] or not {judge, maker} & held[stepped]:
                continue
            pushed.setdefault(judge, {}).setdefault(maker in held[stepped], []).append(entered)
    for judge, ways in pushed.items():
        own, theirs = ways.get(False, []), ways.get(True, [])
        ways_pushed = {each.sign for each in own}, {each.sign for each in theirs}
        if len(ways_pushed[0]) == 1 and ways_pushed[0] == ways_pushed[1]:
            lowered = ways_pushed[0] == {1}
            wrong, right = (theirs[0], own[0]) if lowered else (own[0], theirs[0])
            yield Allied(_line_of(lines, wrong), _line_of(lines, right), lowered, judge)


def _maker(lines: Lines, node: ast.expr, models: frozenset[str]) -> str:
    """The model that made what the discriminator is given."""
    while True:
        node = before_methods(node, _CUTS)
        if not (isinstance(node, ast.Attribute) and node.attr == "data"):
            break
        node = node.value
    if isinstance(node, ast.Call):
        return last_name(node.func) if last_name(node.func) in models else ""
    if not isinstance(node, ast.Name):
        return ""
    above = [
        line
        for line in lines.all(ast.Assign)
        if line.lineno < node.lineno and any(isinstance(t, ast.Name) and t.id == node.id for t in line.targets)
    ]
    made = max(above, key=lambda line: line.lineno).value if above else None
    return _maker(lines, made, models) if made is not None and not isinstance(made, ast.Name) else ""


def _stepped_after(lines: Lines, backward: ast.Attribute, held: Held) -> str | None:
    """The optimizer that steps next below a backward pass."""
    steps = [
        (node.lineno, last_name(node.func.value))
        for node in lines.all(ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "step" and node.lineno >= backward.lineno
    ]
    known = [(line, name) for line, name in steps if name in held]
    return min(known)[1] if known else None


def _line_of(lines: Lines, entered: Entered) -> ast.AST:
    """The line that computes the loss."""
    loss, line = entered.backward.value, entered.backward.lineno
    above = [
        node
        for node in lines.all(ast.Assign)
        if isinstance(loss, ast.Name) and node.lineno <= line and any(ast.unparse(t) == loss.id for t in node.targets)
    ]
    return max(above, key=lambda node: node.lineno) if above else entered.backward


def _is_positive(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and node.value > 0
    return _WEIGHT.search(last_name(node).lower()) is not None
