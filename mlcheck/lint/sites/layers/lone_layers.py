"""A filled layer that stands alone: a head that starts at zero, the last of several, a part of a model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function

_DEPTH = 3
_MODULATES = pattern(r"ada_?ln|modulat", re.IGNORECASE)
"""What shifts and scales the input of the head starts at zero with it, and moves as soon as the head has moved."""


def is_last_turn(call: Call) -> bool:
    """Whether the loop ends with what it fills: `for layer in reversed(layers): ...; break`."""
    around = call.loops[0].node if call.loops else None
    for block in (getattr(node, "body", []) for node in (walk(around) if around is not None else ())):
        lines = block if isinstance(block, list) else []
        here = next((n for n, line in enumerate(lines) if isinstance(line, ast.Expr) and line.value is call.node), None)
        if here is not None and any(isinstance(line, ast.Break) for line in lines[here:]):
            return True
    return False


def is_alone(call: Call, kinds: set[str], value: float) -> bool:
    """Whether it goes over a module or a part of it with a single such layer: a head that starts at zero."""
    cls = call.function.cls if call.function is not None else None
    part = _gone_through(call, cls, value)
    layers = {kind.rpartition(".")[2] for kind in kinds}
    if cls is None or part is None:
        return False
    if is_name(part, "self"):
        own = list(_parts(cls))
        parts = sum(_made(value, layers) for _, value in own)
        hidden = parts == 0 and any(_is_out_of_sight(each, value) for each, value in own)
        return parts == 1 or (hidden and _made(call.file.module.source.tree, layers) == 1)
    if not isinstance(part, ast.Attribute) or ast.unparse(part.value) != "self":
        return False
    made = _values(cls, part.attr)
    return len(made) == 1 and _made(made[0], layers) == 1


def is_head_at_zero(call: Call, kinds: frozenset[str]) -> bool:
    """`for p in self.head.parameters(): nn.init.zeros_(p)`, where the head is one layer."""
    zero = last_name(call.node.func) == "zeros_" or call.constant("val", 1) == 0
    return zero and is_alone(call, set(kinds), 0.0)


def have_one_unit(file: File, kinds: set[str]) -> bool:
    """`nn.ConvTranspose2d(1, 1, ...)`, and no wider ones: a single unit has no other to be like."""
    made = file.calls(*(kind.rpartition(".")[2] for kind in kinds))
    widths = [(each.constant("out_channels", 1), each.constant("out_features", 1)) for each in made]
    return bool(made) and all(1 in width for width in widths)


def _gone_through(call: Call, cls: Class | None, value: float) -> ast.expr | None:
    """`self.head` of `for layer in self.head.modules():`; `self` where `self.apply(self.zero)` is how it is called."""
    if call.loops:
        over = call.loops[0].node.iter if isinstance(call.loops[0].node, ast.For) else None
        return over.func.value if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) else None
    if value or cls is None or call.function is None or f"self.apply(self.{call.function.name})" not in cls.text:
        return None
    return ast.Name("self", ast.Load())


def is_for_parts(call: Call) -> bool:
    """Whether the function around is applied to parts alone: `self.head[-1].apply(zero)`, a branch that starts at 0."""
    function, file = call.function, call.file
    given = [each for each in file.calls("apply") if each.node.args and function is not None]
    owners = [
        each.node.func.value
        for each in given
        if file.resolve(each.node.args[0], each.context) is function and isinstance(each.node.func, ast.Attribute)
    ]
    return bool(owners) and all(isinstance(owner, ast.Subscript | ast.Attribute) for owner in owners)


def _values(cls: Class, attribute: str) -> list[ast.expr]:
    return [assigned.value for _, assigned in cls.attributes.get(attribute, ()) if assigned.value is not None]


def _parts(cls: Class, depth: int = _DEPTH) -> Iterator[tuple[Class, ast.AST]]:
    """What the attributes of a module hold, with the class that it stands in: what its own classes make is of it too.

    A part that is made in a comprehension comes twice, as do all those of a part of a part.
    """
    for base in cls.line:
        names = (name for name in base.attributes if not _MODULATES.search(name))
        for value in (value for name in names for value in _values(base, name)):
            yield base, value
            for node in walk(value) if depth else ():
                named = base.file.resolve(node.func, base.defined.inner) if isinstance(node, ast.Call) else None
                for _ in range(1 + _is_repeated(value, node)):
                    if isinstance(named, Function):
                        yield base, named.node
                    elif isinstance(named, Class):
                        yield from _parts(named, depth - 1)


def _is_out_of_sight(cls: Class, value: ast.AST) -> bool:
    """`PARTS["body"](width)`: made by something that the text does not tell."""
    calls = (node for node in walk(value) if isinstance(node, ast.Call))
    return any(cls.file.resolve(node.func, cls.defined.inner) is None for node in calls)


def _made(tree: ast.AST, layers: set[str]) -> int:
    """How many such layers are made there: by a comprehension, more than one."""
    makes = [node for node in walk(tree) if isinstance(node, ast.Call) and last_name(node.func) in layers]
    return len(makes) + sum(_is_repeated(tree, made) for made in makes)


def _is_repeated(tree: ast.AST, made: ast.AST) -> bool:
    """Whether a comprehension makes it, more than once."""
    many = (n for n in walk(tree) if isinstance(n, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp))
    return any(made in walk(one) for one in many)
