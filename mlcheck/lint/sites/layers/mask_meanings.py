"""What a mask of attention is true for: what takes part, or what is left out."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, is_none, last_name
from mlcheck.lint.sites.data.collating import collated
from mlcheck.lint.sites.data.filled_rows import filled_rows
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import Origin, origins

OPPOSITE = {"past": "future", "future": "past", "tokens": "padding", "padding": "tokens"}
OPPOSITE |= {"before": "onwards", "onwards": "before"}
TAKES_PART = frozenset(["past", "tokens", "before"])
_TRIANGLES = {("tril", 0): "past", ("triu", 1): "future", ("tril", -1): "before", ("triu", 0): "onwards"}
_AS_IT_IS = frozenset(
    ["to", "cuda", "unsqueeze", "squeeze", "expand", "repeat", "contiguous", "detach", "clone", "view", "byte"]
) | {"astype"}
_NUMBERS = frozenset(["float", "int", "long", "byte", "half", "type", "type_as"])
_PAD = pattern(r"(?:^|_)pad(?:_|$|ding)|^pad|PAD")
_OTHERS = pattern(r"mask|valid|attention|hidden|pad", re.IGNORECASE)
"""What is compared, if it is no numbers of tokens."""
_TOKENS = pattern(
    r"(?:^|_)(?:ids?|tokens?|src|tgt|trg|seqs?|sequences?|texts?|words?|inputs?|query|question|sents?|chars?|x)(?:_|$)",
    re.IGNORECASE,
)
_LENGTHS = pattern(r"(?:^|_)(?:len|lens|length|lengths)(?:_|$)|lengths?$", re.IGNORECASE)
_DEPTH = 8


def true_for(mask: Origin, numbers: bool = False, depth: int = _DEPTH) -> str:
    """`past` or `future` of each place, `tokens` or `padding`: where a boolean mask is true; "" if not known.

    `numbers`: whether it may be of numbers too, where 1 stands for true; then only what is surely text has padding.
    """
    same = _AS_IT_IS | _NUMBERS if numbers else _AS_IT_IS
    node, context = source(mask.file, before_methods(mask.node, same), mask.context)
    node = before_methods(node, same)
    if depth == 0:
        return ""
    further = origins(mask.file, node, context, mask.entered)
    if all(each.node is not node for each in further):
        answers = {true_for(each, numbers, depth - 1) for each in further}
        return answers.pop() if len(answers) == 1 else ""
    here = Origin(mask.file, node, context, -1, mask.entered)

    def inside(part: ast.expr) -> str:
        return true_for(here._replace(node=part), numbers, depth - 1)

    match node:
        case (
            ast.UnaryOp(op=ast.Invert(), operand=inner) | ast.Call(func=ast.Attribute(value=inner, attr="logical_not"))
        ):
            return OPPOSITE.get(inside(inner), "")
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=inner) if numbers:
            return OPPOSITE.get(inside(inner), "")
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.Mult(), right=right) if numbers:
            both = inside(left), inside(right)
            return both[0] if all(both) and len({each in TAKES_PART for each in both}) == 1 else ""
        case ast.Call(func=ast.Attribute(value=inner, attr="bool"), args=[]):
            return _triangle(here._replace(node=inner)) or inside(inner)
        case ast.Call(func=ast.Attribute(value=left, attr="eq" | "ne" as op), args=[right]):
            meant = _compared(here, left, right, numbers) or _of_answer(right, inside(left))
            return OPPOSITE.get(meant, "") if op == "ne" else meant
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
            meant = _compared(here, left, right, numbers) or _of_answer(right, inside(left))
            return OPPOSITE.get(meant, "") if isinstance(op, ast.NotEq) else meant
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as op], comparators=[right]):
            return _within_length(here, left, op, right)
        case ast.Subscript(value=inner) if _only_adds_dimensions(node):
            return inside(inner)
        case ast.Call():
            found = _triangle(here) if numbers or "bool" in ast.unparse(node) else ""
            return found or _of_rows(here, node) or ("tokens" if numbers and _is_padded(here, node) else "")
    batch = collated(here.file, node, here.context) if isinstance(node, ast.Name | ast.Subscript) else None
    return true_for(batch, numbers, depth - 1) if batch is not None else ""


def _only_adds_dimensions(node: ast.Subscript) -> bool:
    """`x[:, None, None, :]`; of as many places, `x[:, :, :n, :n]`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    slices = [part for part in parts if isinstance(part, ast.Slice)]
    ends = {ast.unparse(part.upper) for part in slices if part.upper is not None}
    plain = all(part.lower is None and part.step is None for part in slices)
    return plain and len(ends) < 2 and all(is_none(part) or part in slices for part in parts)


def _is_padded(here: Origin, node: ast.Call) -> bool:
    """`F.unfold(torch.ones(1, 1, h, w), 3, padding=1)`, `F.pad(torch.ones(n, t), (1, 1))`: 0 where nothing was."""
    called = here.file.called(node, here.context)
    if called not in ("torch.nn.functional.unfold", "torch.nn.functional.pad") or not node.args:
        return False
    made, context = source(here.file, before_methods(node.args[0], _AS_IT_IS | _NUMBERS), here.context)
    filled = Call(here.file, node, here.context).argument("value", 3) if called.endswith(".pad") else None
    plain = filled is None or _is_no(filled)
    return plain and isinstance(made, ast.Call) and here.file.called(made, context) == "torch.ones"


def _of_answer(asked: ast.expr, meant: str) -> str:
    """What `mask == asked` is true for, where the mask is true for `meant`."""
    if _is_no(asked):
        return OPPOSITE.get(meant, "")
    return meant if isinstance(asked, ast.Constant) and asked.value in (1, True) else ""


def _of_rows(here: Origin, node: ast.Call) -> str:
    """`mask = torch.zeros(n, longest)`, and `mask[i, :length] = 1` for each row, in a function or a `collate_fn`."""
    rows = filled_rows(Call(here.file, node, here.context))
    written = here.file.constant(rows.written, here.context) if rows is not None else None
    if rows is None or {rows.begun, written} != {0, 1}:
        return ""
    return "tokens" if (written == 1) is rows.starts else "padding"


def _is_no(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, False)


def _within_length(here: Origin, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
    """`torch.arange(n)[None] < lengths[:, None]`, and the other way round."""
    sides = [_is_count(here, side) for side in (left, right)], [_is_length(here, side) for side in (left, right)]
    less = isinstance(op, ast.Lt | ast.LtE)
    if sides == ([True, False], [False, True]):
        return "tokens" if less else "padding"
    return ("padding" if less else "tokens") if sides == ([False, True], [True, False]) else ""


def _unshaped(here: Origin, node: ast.expr) -> ast.expr:
    """`x` of `x[:, None]` and `x.unsqueeze(1)`."""
    for _ in range(_DEPTH):
        inner = before_methods(node, _AS_IT_IS)
        if isinstance(inner, ast.Subscript) and _only_adds_dimensions(inner):
            inner = inner.value
        elif isinstance(inner, ast.Name) and not _LENGTHS.search(inner.id):
            inner, _ = source(here.file, inner, here.context)
        if inner is node:
            break
        node = inner
    return node


def _is_count(here: Origin, node: ast.expr) -> bool:
    made = _unshaped(here, node)
    return isinstance(made, ast.Call) and here.file.called(made, here.context) == "torch.arange" and len(made.args) == 1


def _is_length(here: Origin, node: ast.expr) -> bool:
    made = _unshaped(here, node)
    return isinstance(made, ast.Name | ast.Attribute) and _LENGTHS.search(last_name(made)) is not None


def _compared(here: Origin, left: ast.expr, right: ast.expr, numbers: bool) -> str:
    """What `left == right` is true for."""
    number = here.file.constant(right, here.context)
    triangle = _triangle(here._replace(node=left)) if number in (0, 1) else ""
    if triangle:
        return triangle if number == 1 else OPPOSITE[triangle]
    is_number = isinstance(number, int) and not isinstance(number, bool) and number in (0, 1)
    if _OTHERS.search(last_name(left)) or not isinstance(left, ast.Name | ast.Attribute):
        return ""
    if numbers and is_number and not _TOKENS.search(last_name(left)):
        return ""
    return "padding" if is_number or _PAD.search(last_name(right)) else ""


def _triangle(made: Origin) -> str:
    """`torch.tril(torch.ones(n, n))`, `torch.ones(n, n).triu(1)`."""
    node, context = source(made.file, before_methods(made.node, _AS_IT_IS), made.context)
    if isinstance(node, ast.Call) and made.file.called(node, context) in ("torch.from_numpy", "torch.as_tensor"):
        node, context = source(made.file, before_methods(node.args[0], _AS_IT_IS), context)
        node = before_methods(node, _AS_IT_IS)
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    if not isinstance(node, ast.Call) or name not in ("tril", "triu"):
        return ""
    call, called = Call(made.file, node, context), made.file.called(node, context)
    of_library = called in (f"torch.{name}", f"numpy.{name}")
    inner = node.args[0] if of_library and node.args else getattr(node.func, "value", None)
    ones = source(made.file, inner, context)[0] if isinstance(inner, ast.expr) else None
    plain = before_methods(ones, {*_AS_IT_IS, "bool"}) if ones is not None else None
    if made.file.called(plain, context) not in ("torch.ones", "numpy.ones"):
        return ""
    word = "k" if called.startswith("numpy.") else "diagonal"
    diagonal = call.constant(word, 1 if of_library else 0, default=0)
    return _TRIANGLES.get((name, diagonal), "") if isinstance(diagonal, int) else ""
