"""Self-attention of a sequence of tokens in which every place sees every other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_none
from mlcheck.lint.sites.layers.causal import parts_of
from mlcheck.lint.sites.model import OPEN, Call, Class, Function
from mlcheck.lint.sites.origins import origins

_MASKS = {
    "torch.nn.TransformerEncoder": ("mask", 1),
    "torch.nn.TransformerEncoderLayer": ("src_mask", 1),
    "torch.nn.MultiheadAttention": ("attn_mask", 5),
    "torch.nn.functional.scaled_dot_product_attention": ("attn_mask", 3),
}
_ON_THREE = ("torch.nn.MultiheadAttention", "torch.nn.functional.scaled_dot_product_attention")


def unmasked_attention(cls: Class) -> Call | None:
    """The first call of an attention in a model of tokens that is given no mask of what comes later, for certain."""
    parts = list(parts_of(cls))
    if not any("Embedding(" in part.text for part in parts):
        return None
    for part in parts:
        method = part.find("forward") if isinstance(part, Class) else part
        if method is not None:
            for call in _attentions(method):
                return call
    return None


def _attentions(method: Function) -> Iterator[Call]:
    for node in method.all(ast.Call):
        call = Call(method.file, node, method.inner)
        kind = _kind(call)
        if kind in _MASKS and _is_open(call, kind) and (kind not in _ON_THREE or _is_of_itself(method, call)):
            yield call


def _kind(call: Call) -> str:
    named = call.file.resolve(call.node.func, call.context)
    if isinstance(named, str) and named in _MASKS:
        return named
    names = {origin.name for origin in origins(call.file, call.node.func, call.context)}
    return names.pop() if len(names) == 1 else ""


def _is_open(call: Call, kind: str) -> bool:
    mask, causal = call.argument(*_MASKS[kind]), call.argument("is_causal")
    given = [value for value in (mask, causal) if value is not None and not (value is not OPEN and is_none(value))]
    return all(isinstance(value, ast.Constant) and value.value is False for value in given)


def _is_of_itself(method: Function, call: Call) -> bool:
    """Whether one sequence asks and is asked: one name thrice, or a `forward` that is given nothing else."""
    query, key = call.argument("query", 0), call.argument("key", 1)
    if not isinstance(query, ast.expr) or not isinstance(key, ast.expr):
        return False
    given = [name for name in method.parameters if name != method.receiver]
    return ast.unparse(query) == ast.unparse(key) or (method.name == "forward" and len(given) == 1)
