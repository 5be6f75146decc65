"""The format that boxes are in, as far as the text tells, and where another one is needed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import assigned, before_methods, last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_FORMAT = pattern(r"(?:^|_)(xyxy|cxcywh|xywh)(?:_|$)")
_CONVERTS = pattern(r"(?:xyxy|cxcywh|xywh)(?:_to_|2)(xyxy|cxcywh|xywh)")
_CORNERS = ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou", "nms", "batched_nms", "box_area")
_LOSSES = ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss")
NEED_CORNERS = tuple(f"torchvision.ops.{name}" for name in (*_CORNERS, *_LOSSES))
_KEEPS = (
    "to",
    "float",
    "clone",
    "detach",
    "cuda",
    "cpu",
    "view",
    "reshape",
    "contiguous",
    "unsqueeze",
    "squeeze",
    "copy",
)
_HOLDS = frozenset(["tensor", "as_tensor", "FloatTensor", "Tensor", "from_numpy", "array", "asarray", "cat", "stack"])
_DETECTORS = pattern(
    r"models\.detection\b|(?:faster|mask|keypoint)rcnn_|retinanet_resnet|fcos_resnet|ssd300_|ssdlite320_"
)
_CHANGED_LATER = pattern(r"box_convert\(|(?:_to_|2)xyxy|\[:, ?2:\] ?\+?=|\[\.\.\., ?2:\] ?\+?=|bboxes?\[2\] ?\+=")
_COCO = pattern(r"coco|[\"']annotations[\"']", re.IGNORECASE)
_DEPTH = 12


class Misread(NamedTuple):
    """What is given where corners are needed, and its format."""

    file: File
    context: Context
    given: ast.expr
    format: str


class _Told(NamedTuple):
    """A format, and the expression that tells it."""

    format: str
    node: ast.expr
    file: File


def not_corners(sites: Sites) -> Iterator[Misread]:
    """Boxes of another format, given to what takes the first two numbers from the last two."""
    for call in sites.calls(*NEED_CORNERS):
        for given in call.node.args[:2]:
            told = _format(call.file, given, call.context, _DEPTH)
            if told is not None and told.format != "xyxy":
                yield Misread(call.file, call.context, given, told.format)
                break
    texts = [file.text for file in sites.mentioning(["boxes"])]
    detects = any(_DETECTORS.search(text) for text in texts) or any(
        _DETECTORS.search(file.text) for file in sites.mentioning(["detection"])
    )
    if detects and not any(_CHANGED_LATER.search(file.text) for file in sites.files.values()):
        for file in sites.mentioning(["boxes"]):
            yield from _targets(file)


def _targets(file: File) -> Iterator[Misread]:
    """`{"boxes": boxes, "labels": labels}` in a data set for the detectors of torchvision."""
    for function in file.functions if "labels" in file.text else ():
        if function.name != "__getitem__":
            continue
        for node in function.nodes:
            value = None
            if isinstance(node, ast.Dict):
                keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
                value = node.values[keys.index("boxes")] if "boxes" in keys and "labels" in keys else None
            elif isinstance(node, ast.Assign):
                value = next((given for target, given in assigned(node) if _is_entry(target, "boxes")), None)
            told = _format(file, value, function.inner, _DEPTH) if value is not None else None
            if value is not None and told is not None and told.format != "xyxy":
                place = told.node if told.file is file and told.node in function.nodes else value
                yield Misread(file, function.inner, place, told.format)


def _is_entry(node: ast.expr, key: str) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == key


def _format(file: File, node: ast.expr, context: Context, depth: int) -> _Told | None:
    """The format of a value, and the expression that tells it."""
    if depth == 0:
        return None
    node = before_methods(node, _KEEPS)
    match node:
        case ast.Call():
            return _of_call(file, node, context, depth)
        case ast.BinOp(left=left, op=ast.Div() | ast.Mult()):
            return _format(file, left, context, depth - 1)
        case ast.ListComp(elt=elt):
            return _format(file, elt, context, depth - 1)
        case ast.List(elts=[ast.Name(), ast.Name(), ast.Name(), ast.Name()]):
            return _of_sides(file, node, context, depth)
        case ast.List(elts=[one]):
            return _format(file, one, context, depth - 1)
        case ast.Subscript(slice=ast.Constant(value=str() as key)):
            if key == "bbox" and _COCO.search(file.text):
                return _Told("xywh", node, file)
            return _of_key(file, key, depth)
        case ast.Subscript(value=inner, slice=ast.Name()):
            return _format(file, inner, context, depth - 1)
        case ast.Name(id=name):
            return _of_name(file, node, name, context, depth)
    return None


def _of_call(file: File, node: ast.Call, context: Context, depth: int) -> _Told | None:
    call, last = Call(file, node, context), last_name(node.func)
    if file.called(node, context) == "torchvision.ops.box_convert":
        made = call.constant("out_fmt", 2)
        return _Told(made, node, file) if isinstance(made, str) else None
    if named := _CONVERTS.search(last.lower()):
        return _Told(named[1], node, file)
    return _format(file, node.args[0], context, depth - 1) if last in _HOLDS and node.args else None


def _of_sides(file: File, node: ast.List, context: Context, depth: int) -> _Told | None:
    """`[x, y, w, h]`, after `x, y, w, h = annotation["bbox"]`."""
    bound = [latest(file, each, context) for each in node.elts if isinstance(each, ast.Name)]
    items = [each.item for each in bound if each is not None and each.kind == "item"]
    values = {id(each.value): each for each in bound if each is not None}
    (first, *_) = values.values() if values else (None,)
    if items != [0, 1, 2, 3] or len(values) != 1 or first is None or not isinstance(first.value, ast.expr):
        return None
    told = _format(file, first.value, first.context, depth - 1)
    return _Told(told.format, node, file) if told is not None else None


def _of_key(file: File, key: str, depth: int) -> _Told | None:
    """The format that every `target[key] = ...` of the program gives it."""
    found = []
    for other in file.sites.mentioning([f'["{key}"] =', f"['{key}'] ="]):
        for function in other.functions:
            for line in function.all(ast.Assign) if key in function.text else ():
                for target, value in assigned(line):
                    if _is_entry(target, key):
                        found.append(_format(other, value, function.inner, depth - 3) if depth > 3 else None)
    formats = {told.format if told is not None else "" for told in found}
    return found[0] if len(formats) == 1 and "" not in formats else None


def _of_name(file: File, node: ast.Name, name: str, context: Context, depth: int) -> _Told | None:
    named = _FORMAT.search(name.lower())
    if named is not None:
        return _Told(named[1], node, file)
    found = latest(file, node, context)
    around = file.function_around(context)
    if found is None or around is None or _is_changed(around.nodes, name):
        return None
    if found.kind == "value" and isinstance(found.value, ast.List) and not found.value.elts:
        return _of_appended(file, name, context, depth)
    if found.kind == "value" and isinstance(found.value, ast.expr):
        return _format(file, found.value, found.context, depth - 1)
    return None


def _of_appended(file: File, name: str, context: Context, depth: int) -> _Told | None:
    function = file.function_around(context)
    added = [
        (node.args[0], where)
        for node, where in file.walk.mutations.get(name, ())
        if isinstance(node, ast.Call) and last_name(node.func) == "append" and node.args
        if file.function_around(where) is function
    ]
    told = [_format(file, given, where, depth - 1) for given, where in added]
    formats = {each.format if each is not None else "" for each in told}
    return told[0] if len(formats) == 1 and "" not in formats else None


def _is_changed(nodes: list[ast.AST], name: str) -> bool:
    """`boxes[:, 2:] += boxes[:, :2]`: a part of the boxes is written over."""
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and last_name(node.value) == name
        for node in nodes
    )
