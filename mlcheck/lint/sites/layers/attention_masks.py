"""Boolean masks of attention: whether they are true for what takes part, or for what is left out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, is_none, last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.instances import calls_of_instances
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Call, Class
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_SDPA = "torch.nn.functional.scaled_dot_product_attention"
_LAYERS = ("torch.nn.Transformer", "torch.nn.MultiheadAttention")
ATTENTION = (_SDPA, *_LAYERS, "torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer")
_TRIANGLES = ("attn_mask", "src_mask", "tgt_mask", "mask")
_PADDINGS = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")
_AS_IT_IS = frozenset(
    ["to", "cuda", "unsqueeze", "squeeze", "expand", "repeat", "contiguous", "detach", "clone", "view", "byte"]
) | {"astype"}
_OPPOSITE = {"past": "future", "future": "past", "tokens": "padding", "padding": "tokens"}
_OPPOSITE |= {"before": "onwards", "onwards": "before"}
_TRIANGLES_OF = {("tril", 0): "past", ("triu", 1): "future", ("tril", -1): "before", ("triu", 0): "onwards"}
_SCORES = pattern(r"scores?$|attn|atten|energy|^att$|^dots?$|^sim$|weights?$|logits?$")
_LARGE = -1000
_PAD = pattern(r"(?:^|_)pad(?:_|$|ding)|^pad|PAD")
_OTHERS = pattern(r"mask|valid|attention|hidden|pad", re.IGNORECASE)
"""What is compared, if it is no numbers of tokens."""
_DEPTH = 8


class Inverted(NamedTuple):
    """A call of attention whose mask is true for the others; for which, and where it is made."""

    call: Call
    name: str
    true_for: str
    made: Origin


def inverted_masks(sites: Sites) -> Iterator[Inverted]:
    for file in sites.mentioning(["_mask=", " mask=", "(mask=", "scaled_dot_product_attention"]):
        for calls in file.walk.calls.values():
            for node, context in calls:
                names = [word.arg for word in node.keywords if word.arg in (*_TRIANGLES, *_PADDINGS)]
                if names or last_name(node.func) == "scaled_dot_product_attention":
                    yield from _of_call(Call(file, node, context, file.called(node, context)))
    for file in sites.mentioning(["masked_fill"]):
        for call in file.calls("masked_fill", "masked_fill_") if "softmax" in file.text.lower() else ():
            yield from _of_filling(call)


def _of_filling(call: Call) -> Iterator[Inverted]:
    """`scores.masked_fill(mask, -1e9)` where `mask` is true for all that came before."""
    mask, value = call.argument("mask", 0), call.argument("value", 1)
    if not _SCORES.search(last_name(call.owner).lower()) or mask is None or mask is OPEN:
        return
    if value is None or not _is_minus_infinity(call, value):
        return
    found = [(each, _true_for(each, _DEPTH)) for each in _masks(call, mask)]
    meant = {meaning for _, meaning in found}
    if len(meant) == 1 and meant <= {"past", "before"}:
        yield Inverted(call, ast.unparse(mask), meant.pop(), found[0][0])


def _masks(call: Call, mask: ast.expr) -> list[Origin]:
    """Where the mask may come from; what a `forward` is given, from the calls of its module."""
    forward = call.function
    if forward is None or forward.cls is None or forward.name != "forward" or not isinstance(mask, ast.Name):
        return origins(call.file, mask, call.context)
    if mask.id not in forward.parameters:
        return origins(call.file, mask, call.context)
    position = list(forward.parameters).index(mask.id) - 1
    found = []
    for use in calls_of_instances(call.file.sites, forward, forward.cls):
        value = use.argument(mask.id, position)
        if isinstance(value, ast.expr) and value is not OPEN and not is_none(value):
            found += origins(use.file, value, use.context)
    return found


def _is_minus_infinity(call: Call, value: ast.expr) -> bool:
    text, number = ast.unparse(value).replace('"', "'"), call.file.constant(value, call.context)
    plain = isinstance(number, int | float) and not isinstance(number, bool) and number <= _LARGE
    return plain or text in ("float('-inf')", "-float('inf')", "-math.inf", "-torch.inf", "-np.inf") or ").min" in text


def _of_call(call: Call) -> Iterator[Inverted]:
    for name, wrong in _wrong_for(call).items():
        mask = call.argument(name, 3) if call.name == _SDPA else call.argument(name)
        if isinstance(mask, ast.expr) and mask is not OPEN:
            found = [(each, _true_for(each, _DEPTH)) for each in origins(call.file, mask, call.context)]
            meant = {meaning for _, meaning in found}
            if len(meant) == 1 and meant <= wrong:
                yield Inverted(call, name, meant.pop(), found[0][0])


def _wrong_for(call: Call) -> dict[str, set[str]]:
    """What its masks must not be true for: the function looks where they are, the layers do not."""
    if call.name == _SDPA:
        return {"attn_mask": {"future", "padding"}}
    kind = _kind(call)
    paddings = {name: {"tokens"} for name in _PADDINGS} if kind != "own" else {}
    return paddings | {name: {"past"} for name in _TRIANGLES if kind == "layer"}


def _kind(call: Call) -> str:
    """A `layer` of PyTorch, one of the project's `own`, which has a meaning of its own for a mask, or "": not known."""
    made = origins(call.file, call.node.func, call.context)
    names = {each.name for each in made}
    if names and all(name.startswith(_LAYERS) for name in names):
        return "layer"
    known = any(each.name or isinstance(each.file.resolve(_maker(each), each.context), Class) for each in made)
    return "own" if known else ""


def _maker(made: Origin) -> ast.expr:
    return made.node.func if isinstance(made.node, ast.Call) else made.node


def _true_for(mask: Origin, depth: int) -> str:
    """`past` or `future` of each place, `tokens` or `padding`: where a boolean mask is true; "" if not known."""
    node, context = source(mask.file, before_methods(mask.node, _AS_IT_IS), mask.context)
    node = before_methods(node, _AS_IT_IS)
    if depth == 0:
        return ""
    further = origins(mask.file, node, context, mask.entered)
    if len(further) == 1 and further[0].node is not node:
        return _true_for(further[0], depth - 1)
    here = Origin(mask.file, node, context, -1, mask.entered)
    match node:
        case (
            ast.UnaryOp(op=ast.Invert(), operand=inner) | ast.Call(func=ast.Attribute(value=inner, attr="logical_not"))
        ):
            return _OPPOSITE.get(_true_for(here._replace(node=inner), depth - 1), "")
        case ast.Call(func=ast.Attribute(value=inner, attr="bool"), args=[]):
            inside = here._replace(node=inner)
            return _triangle(inside) or _true_for(inside, depth - 1)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
            same = _compared(here, left, right, mask.file, context)
            return _OPPOSITE.get(same, "") if isinstance(op, ast.NotEq) else same
        case ast.Call():
            return _triangle(here) if "bool" in ast.unparse(node) else ""
    return ""


def _compared(here: Origin, left: ast.expr, right: ast.expr, file: File, context: Context) -> str:
    """What `left == right` is true for."""
    number = file.constant(right, context)
    triangle = _triangle(here._replace(node=left)) if number in (0, 1) else ""
    if triangle:
        return triangle if number == 1 else _OPPOSITE[triangle]
    is_number = isinstance(number, int) and not isinstance(number, bool) and number in (0, 1)
    if _OTHERS.search(last_name(left)) or not isinstance(left, ast.Name | ast.Attribute):
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
    return _TRIANGLES_OF.get((name, diagonal), "") if isinstance(diagonal, int) else ""
