"""Methods of tensors, and of values that may be tensors."""

from __future__ import annotations

import ast

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import bounds, cuts, gradients, losses, one_hot
from mlcheck.lint.pytorch.library_names import ELEMENTWISE
from mlcheck.lint.shapes import asking
from mlcheck.lint.values import NONE, TRUE, Args, Kwargs, Symbol, Tensor, Value, split_of, traces_of

_SAME = frozenset(
    [
        "view",
        "reshape",
        "resize",
        "resize_",
        "ravel",
        "squeeze",
        "unsqueeze",
        "flatten",
        "permute",
        "transpose",
        "contiguous",
        "float",
        "double",
        "half",
        "bfloat16",
        "to",
        "cuda",
        "cpu",
        "type",
        "type_as",
        "t",
        "clone",
        "requires_grad_",
        "expand",
        "expand_as",
        "repeat",
        "view_as",
        "reshape_as",
        "unflatten",
        "movedim",
        "swapaxes",
        "index_select",
        "narrow",
        "masked_select",
        "retain_grad",
        "chunk",
        "split",
        "pin_memory",
        "clamp",
        "clamp_min",
        "clamp_",
        "clip",
        "mean",
    ]
)
_ACTIVATIONS = {
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "log_softmax": "log_softmax",
    "logsigmoid": "log_sigmoid",
    "sigmoid_": "sigmoid",
    "tanh": "tanh",
}
_DATA = frozenset(["item", "numpy", "tolist", "argmax", "argsort", "eq", "ne", "size", "dim", "numel"])
_OF_TENSORS = _SAME | frozenset(_ACTIVATIONS) | _DATA | {"backward", "detach", "log", "exp", "add"}


def is_for_tensors(m: Machine, owner: Symbol, name: str) -> bool:
    """Whether it is known what the method makes of a value that may be a tensor, or is one that was cut off."""
    return name in _OF_TENSORS or cuts.stays(m, owner, name)


def call(m: Machine, owner: Tensor | Symbol, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A method of a tensor, or of a value that may be one."""
    traces, split = traces_of(owner, *args), split_of(owner, *args)
    if name == "backward":
        gradients.backward(m, node, owner)
        return NONE
    if name == "size" and not kwargs and (size := asking.asked_size(m, owner, args)) is not None:
        return size
    if name in _DATA - {"item", "numpy", "tolist", "argmax", "argsort"}:
        return Symbol(m.fresh(), "size" if name == "size" and not args and not kwargs else "", split)
    if name in ("argmax", "argmin"):
        return Symbol(m.fresh(), "", split, cuts.ended(m, owner.traces, node))
    if name in cuts.CUTTING:
        return cuts.cut(m, owner, split, node)
    if cuts.stays(m, owner, name):
        return owner
    if name == "requires_grad_" and (args or [kwargs.get("requires_grad", TRUE)])[0] == TRUE:
        return cuts.begun(m, owner, node.func if isinstance(node, ast.Call) else node)
    if name in _ACTIVATIONS:
        return losses.activated(m, _ACTIVATIONS[name], owner, node, split, traces)
    known = ELEMENTWISE.get((name.rstrip("_"), owner.kind)) if isinstance(owner, Tensor) else None
    if known is not None:
        return Tensor(known, m.place(node), split, traces)
    if name in one_hot.PRODUCTS and args and (chances := one_hot.product(owner, args[0])) is not None:
        return chances
    if name in ("add", "add_") and isinstance(owner, Tensor):
        return Tensor(owner.kind, owner.place, split, traces)
    if name in _SAME:
        if isinstance(owner, Tensor):
            keeps = name != "mean" or owner.kind in ("softmax", "sigmoid", "loss")
            if owner.kind == "raw" and name.startswith(("clamp", "clip")):
                return bounds.bounded(owner, args, kwargs, m.place(node))
            return Tensor(owner.kind if keeps else "other", owner.place, split, traces, owner.scaler)
        return Symbol(m.fresh(), owner.name, split, traces)
    if isinstance(owner, Tensor):
        kind = owner.kind if owner.kind in ("loss", "scaled") and name in ("sum", "div", "mul") else "other"
        if owner.kind == "raw" and name == "sum" and (args or "dim" in kwargs):
            kind = "raw"
        return Tensor(kind, owner.place, split, traces)
    return Symbol(m.fresh(), "", split, traces)
