"""Masks of class numbers that are resized as pictures are: a mean of two classes is the number of a third."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import before_methods, last_name, walk
from mlcheck.lint.sites.data.mask_transforms import MASK
from mlcheck.lint.sites.data.transforms import name_of, steps_of
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import Origin, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_INTEGERS = frozenset(["torch.long", "torch.int64", "numpy.int64", "numpy.long", "int"])
_OF_NUMBERS = frozenset(["torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.LongTensor", "numpy.array"])
_OF_NUMBERS |= {"numpy.asarray", "numpy.ascontiguousarray"}
_KEEPS = ("squeeze", "contiguous", "copy", "unsqueeze", "clone", "astype", "float", "to", "view", "reshape", "long")
_MIXING = {
    "bilinear",
    "bicubic",
    "BILINEAR",
    "BICUBIC",
    "LANCZOS",
    "INTER_LINEAR",
    "INTER_CUBIC",
    "INTER_AREA",
    "trilinear",
}
_DEPTH = 8


class Mixed(NamedTuple):
    """The call that resizes a mask, the mask as it is written, and where the result becomes class numbers."""

    call: Call
    mask: str
    numbers: ast.expr


def mixed_masks(sites: Sites) -> Iterator[Mixed]:
    """`mask = Resize(256)(mask)`, and then `.long()`."""
    resizing = any(True for _ in sites.mentioning(["esize", "interpolate("])) and sites.uses_torch
    for file in sites.mentioning(["long", "Long", "int64"]) if resizing else ():
        for node, context in _class_numbers(file):
            found = _resized(file, node, context, _DEPTH)
            if found is not None:
                yield Mixed(found[0], found[1], node)


def _class_numbers(file: File) -> Iterator[tuple[ast.expr, Context]]:
    """What becomes integers: `x.long()`, `x.astype(np.int64)`, `torch.tensor(x, dtype=torch.long)`."""
    for call in file.calls("long", "astype", "to", "type", "tensor", "as_tensor", "LongTensor"):
        last, owner = last_name(call.node.func), call.owner
        dtypes = [ast.unparse(each) for each in (*call.node.args, *(word.value for word in call.node.keywords))]
        said = any(text.replace("np.", "numpy.") in _INTEGERS or text.endswith("LongTensor") for text in dtypes)
        if last in ("tensor", "as_tensor", "LongTensor"):
            if (said or last == "LongTensor") and call.node.args:
                yield call.node.args[0], call.context
        elif owner is not None and (last == "long" or said):
            yield owner, call.context


def _resized(file: File, node: ast.expr, context: Context, depth: int) -> tuple[Call, str] | None:
    """The call behind a value that resized a mask by means of its pixels, with nothing that decides in between."""
    node = before_methods(node, _KEEPS)
    if isinstance(node, ast.Name):
        node, context = source(file, node, context)
        node = before_methods(node, _KEEPS)
    if isinstance(node, ast.Subscript):
        return _resized(file, node.value, context, depth - 1) if depth else None
    if not isinstance(node, ast.Call) or depth == 0:
        return None
    call, named = Call(file, node, context), file.called(node, context)
    if _mixes(call, named):
        given = node.func.value if _is_method(call, named) and isinstance(node.func, ast.Attribute) else node.args[0]
        text = ast.unparse(before_methods(given, _KEEPS))
        is_mask = MASK.search(text.lower()) or any(MASK.search(name.lower()) for name in file.names_given(node))
        grey = named.startswith(("cv2.", "torch.")) or _is_grey(file, given, context)
        return (call, text) if is_mask and grey else None
    if named in _OF_NUMBERS and node.args:
        return _resized(file, node.args[0], context, depth - 1)
    asked = file.resolve(node.func, context)
    answers = list(returns(asked)) if isinstance(asked, Function) else []
    if isinstance(asked, Function) and len(answers) == 1:
        return _resized(asked.file, answers[0], asked.inner, depth - 1)
    return None


def _is_method(call: Call, named: str) -> bool:
    return not named and call.node.func.__class__ is ast.Attribute and last_name(call.node.func) == "resize"


def _mixes(call: Call, named: str) -> bool:
    """Whether it resizes a picture by means of its pixels: as most do unless they are told otherwise."""
    words = [*call.node.args[1:], *(word.value for word in call.node.keywords)]
    said = {last_name(word) or getattr(word, "value", "") for word in words}
    if "NEAREST" in said or "INTER_NEAREST" in said or any(isinstance(word, ast.Starred) for word in words):
        return False
    told = said & _MIXING
    if named == "torch.nn.functional.interpolate":
        return bool(told)
    if named == "cv2.resize":
        return bool(told) or (len(call.node.args) < 6 and "interpolation" not in call.names())
    if named == "torchvision.transforms.functional.resize":
        return bool(told) or (len(call.node.args) < 3 and "interpolation" not in call.names())
    if _is_method(call, named):
        return bool(told) or (len(call.node.args) == 1 and not call.node.keywords)
    if named or len(call.node.args) != 1 or call.node.keywords:
        return False
    steps = steps_of(Origin(call.file, call.node.func, call.context)) or []
    return any(_is_resize(step) for step in steps) and not any(name_of(step) == "ToTensor" for step in steps)


def _is_resize(step: Origin) -> bool:
    if step.name.rpartition(".")[2] not in ("Resize", "RandomResizedCrop") or not isinstance(step.node, ast.Call):
        return False
    call = Call(step.file, step.node, step.context)
    given = call.argument("interpolation", 1 if step.name.endswith("Resize") else 3)
    return given is None or last_name(given) in _MIXING


def _is_grey(file: File, node: ast.expr, context: Context) -> bool:
    """Whether a picture has grey values: one with a palette keeps its numbers whatever is asked."""
    made, _ = source(file, node, context)
    for part in walk(made):
        if isinstance(part, ast.Call) and last_name(part.func) == "convert" and part.args:
            return isinstance(part.args[0], ast.Constant) and part.args[0].value in ("L", "I", "F")
        if isinstance(part, ast.Call) and last_name(part.func) == "fromarray":
            return True
    return False
