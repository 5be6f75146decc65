"""Boolean masks of attention: whether they are true for what takes part, or for what is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.layers.mask_meanings import true_for
from mlcheck.lint.sites.model import OPEN, Call, Class
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites

_SDPA = "torch.nn.functional.scaled_dot_product_attention"
_LAYERS = ("torch.nn.Transformer", "torch.nn.MultiheadAttention")
ATTENTION = (_SDPA, *_LAYERS, "torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer")
_TRIANGLES = ("attn_mask", "src_mask", "tgt_mask", "mask")
_PADDINGS = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")


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


def _of_call(call: Call) -> Iterator[Inverted]:
    for name, wrong in _wrong_for(call).items():
        mask = call.argument(name, 3) if call.name == _SDPA else call.argument(name)
        if isinstance(mask, ast.expr) and mask is not OPEN:
            found = [(each, true_for(each)) for each in origins(call.file, mask, call.context)]
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
