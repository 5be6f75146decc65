"""Entropies of a policy, and the sign with which a loss that is minimised takes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.lines import Lines
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.sites.training.signs import WHOLE, Signs

_NAME = pattern(r"^(?:dist_|policy_|avg_|mean_|pi_|new_)?entrop(?:y|ies)(?:_?(?:bonus|mean|t|avg))?$")
_NEGATIVE = pattern(r"entrop[\w-]*[\"']?\]?(?:[^\n]*default)?\s*[=:]\s*-\s*[\d.]")  # a weight with the sign in it
_POLICY = pattern(r"advantage|\badv\b|\bgae\b|log_?prob|logp|surr|policy_loss|actor_loss|pg_loss")
_WEIGHT = pattern(r"coe?f|beta|weight|scale|c_?2|ent|alpha|reg|lambda")


_JOINS = ("stack", "cat", "tensor")


class Penalised(NamedTuple):
    """A term that adds the entropy to a loss, and the `backward` of it."""

    term: ast.expr
    name: str


def penalised(function: Function) -> Iterator[Penalised]:
    """`loss = policy_loss + 0.01 * entropy`, `loss.backward()`: the policy is paid for being sure."""
    if not _POLICY.search(function.text) or "maximize=True" in function.file.text:
        return
    if any(_NEGATIVE.search(file.text) for file in function.file.sites.mentioning(["entrop"])):
        return
    lines = Lines(function.file, function)
    signs = Signs(lines, lambda node: _is_positive(function.file, node, function.inner))
    above = signs.above
    for node in (
        *function.all(ast.Name),
        *function.all(ast.Attribute),
        *function.all(ast.Call),
        *function.all(ast.Subscript),
    ):
        if isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and _is_entropy(function, node, above):
            entered = signs.of(node)
            if entered and {each.sign for each in entered} == {1}:
                yield Penalised(node, ast.unparse(node))


def _is_entropy(function: Function, node: ast.expr, above: dict[int, ast.AST]) -> bool:
    """`dist.entropy()` itself, or a name that certainly holds an entropy, and not its negative."""
    if isinstance(node, ast.Call):
        return _is_asked(node) and not _is_named(node, above)
    owner = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(above.get(id(node)), ast.Subscript | ast.Call | ast.Attribute) and not _is_reduced(above, node):
        return False
    if (
        isinstance(owner, ast.Attribute | ast.Call)
        or not isinstance(owner, ast.Name)
        or not _NAME.search(owner.id.lower())
    ):
        return False
    return _holds_entropy(function.file, owner, function.inner)


def _is_named(node: ast.AST, above: dict[int, ast.AST]) -> bool:
    """`entropy = dist.entropy().mean()`: it is judged by its name."""
    while isinstance(outer := above.get(id(node)), ast.Attribute | ast.Call):
        node = outer
    target = outer.targets[0] if isinstance(outer, ast.Assign) else None
    return isinstance(target, ast.Name) and bool(_NAME.search(target.id.lower()))


def _is_reduced(above: dict[int, ast.AST], node: ast.expr) -> bool:
    outer = above.get(id(node))
    return isinstance(outer, ast.Attribute) and outer.attr in WHOLE


def _is_asked(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "entropy"
        and not node.args
    )


def _holds_entropy(file: File, name: ast.Name, context: Context) -> bool:
    found = origins(file, name, context)
    if not found:
        return False
    made = [each._replace(node=_gathered(each.node)) for each in found]
    return all(_is_made(each.node) or _is_filled(each.file, each.node, each.context) for each in made)


def _gathered(node: ast.expr) -> ast.expr:
    """`entropies` of `torch.stack(entropies).mean()`."""
    inner = before_methods(node, WHOLE)
    return inner.args[0] if isinstance(inner, ast.Call) and last_name(inner.func) in _JOINS and inner.args else node


def _is_made(node: ast.expr) -> bool:
    """`dist.entropy().mean()`, `-(p * log_p).sum(1)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WHOLE:
        node = node.func.value
    if _is_asked(node):
        return True
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = node.operand
        while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in WHOLE:
            inner = inner.func.value if not inner.args or not isinstance(inner.args[0], ast.BinOp) else inner.args[0]
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
            return any("log" in last_name(part).lower() for part in walk(inner))
    return False


def _is_filled(file: File, node: ast.expr, context: Context) -> bool:
    """`entropies = []`, into which a loop puts entropies; so of an attribute, whoever puts them there."""
    if isinstance(node, ast.Attribute):
        near = file.sites.mentioning([node.attr])
        added = [c for each in near for c in each.calls("append") if last_name(c.owner) == node.attr]
        return _are_entropies(added)
    if not isinstance(node, ast.List) or node.elts:
        return False
    names = file.names_given(node)
    added = [call for call in file.calls("append") if last_name(call.owner) in names]
    return _are_entropies(added)


def _are_entropies(added: list[Call]) -> bool:
    given = [call.node.args[0] for call in added if len(call.node.args) == 1]
    made = [
        each.node
        for arg in given
        for call in added
        if call.node.args[0] is arg
        for each in origins(call.file, arg, call.context)
    ]
    return bool(made) and all(map(_is_made, made))


def _is_positive(file: File, node: ast.expr, context: Context) -> bool:
    """A positive number, or a name that stands for the weight of a term and is nowhere written as negative."""
    value = file.constant(node, context)
    if isinstance(value, int | float):
        return value > 0
    found = origins(file, node, context)
    told = [each.file.constant(each.node, each.context) for each in found]
    if told and all(isinstance(each, int | float) for each in told):
        return all(isinstance(each, int | float) and each > 0 for each in told)
    if isinstance(node, ast.Name | ast.Attribute) and _WEIGHT.search(last_name(node).lower()):
        return not any(isinstance(part, ast.UnaryOp) for each in found for part in walk(each.node))
    return False
