"""Pixels that are divided by 255 after `ToTensor` has brought those of a picture to 0..1."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.data.transforms import name_of, steps_of, transforms_of
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import Item, item_of_iteration, iteration_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import OPEN, Call, Function
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_SAME = ("float", "double", "to", "cuda", "contiguous", "clone")
_SIZED = ("resize", "crop", "rotate", "transpose", "copy", "filter")
_KEEPS_BYTES = ("cv2.resize", "cv2.cvtColor", "cv2.flip")
_LOADS = ("cv2.imread", "torchvision.datasets.folder.default_loader", "torchvision.datasets.folder.pil_loader")
_SPACES = ("torchvision.transforms.functional", "torchvision.transforms.v2.functional")
_CONVERTS = tuple(f"{space}.to_tensor" for space in _SPACES)


def scaled_again(sites: Sites) -> Iterator[tuple[Place, Place]]:
    """`self.transform(Image.open(path)) / 255`: the division, and what has scaled the picture before."""
    for file in sites.mentioning(["255"]) if any(True for _ in sites.mentioning(["ToTensor", "to_tensor"])) else ():
        for function in file.functions:
            for node, given in _divisions(function) if "255" in function.text else ():
                found = _made_of(file, given, function.inner)
                scaled = [place for each in found if (place := _scales(each)) is not None]
                if found and len(scaled) == len(found):
                    yield function.place(node), scaled[0]


def _divisions(function: Function) -> Iterator[tuple[ast.AST, ast.expr]]:
    for node in (*function.all(ast.BinOp), *function.all(ast.AugAssign), *function.all(ast.Call)):
        match node:
            case ast.BinOp(left=given, op=ast.Div(), right=ast.Constant(value=255)):
                yield node, given
            case ast.AugAssign(target=ast.Name() as given, op=ast.Div(), value=ast.Constant(value=255)):
                yield node, given
            case ast.Call(func=ast.Attribute(value=given, attr="div" | "div_"), args=[ast.Constant(value=255)]):
                yield node, given


def _made_of(file: File, node: ast.expr, context: Context) -> list[Origin]:
    node, context = source(file, before_methods(node, _SAME), context)
    return origins(file, before_methods(node, _SAME), context)


def _scales(made: Origin) -> Place | None:
    """Where a picture becomes a tensor of numbers from 0 to 1, if that is how the value came about."""
    call = made.node
    if isinstance(call, ast.Name):
        return _of_loader(made, call)
    if isinstance(call, ast.Subscript):
        return _of_data_set(made, call)
    if not isinstance(call, ast.Call) or not call.args or not is_picture(made, call.args[0]):
        return None
    if made.name in _CONVERTS:
        return made.file.place(call, made.context)
    return _conversion(steps_of(Origin(made.file, call.func, made.context, -1, made.entered)) or [])


def _conversion(steps: list[Origin]) -> Place | None:
    """Where `ToTensor` is among the steps, if nothing unknown follows it."""
    names = [name_of(step) for step in steps]
    if "ToTensor" not in names or not all(names) or "Lambda" in names[names.index("ToTensor") :]:
        return None
    step = steps[names.index("ToTensor")]
    return step.file.place(step.node, step.context)


def _of_data_set(made: Origin, taken: ast.Subscript) -> Place | None:
    """`image` of `image, label = self.base[i]`, and `self.base[i][0]`, where `self.base` is a public data set."""
    first = made.item == 0
    if isinstance(taken.slice, ast.Constant) and taken.slice.value == 0 and isinstance(taken.value, ast.Subscript):
        taken, first = taken.value, True
    data = origins(made.file, taken.value, made.context, made.entered) if first else []
    if not data or not all(each.name.startswith("torchvision.datasets.") for each in data):
        return None
    places = [_conversion(transforms_of(each) or []) for each in data]
    return places[0] if None not in places else None


def _of_loader(made: Origin, brought: ast.Name) -> Place | None:
    """`images` of `for images, labels in loader`, where all that the loader may hold are public pictures."""
    item = item_of_iteration(brought, made.context) or _whole_batch(made, brought)
    found = origins(made.file, item.over, item.loop) if item is not None and item.key == 0 else []
    data: list[Origin] = []
    for each in found:
        call = Call(each.file, each.node, each.context) if isinstance(each.node, ast.Call) else None
        held = call.argument("dataset", 0) if call is not None and each.name == LOADER else None
        if call is None or held is None or held is OPEN or call.argument("collate_fn", 6) is not None:
            return None
        data += origins(each.file, held, each.context, each.entered)
    if not data or not all(each.name.startswith("torchvision.datasets.") for each in data):
        return None
    places = [_conversion(transforms_of(each) or []) for each in data]
    return places[0] if None not in places else None


def _whole_batch(made: Origin, brought: ast.Name) -> Item | None:
    """The batch of which one part is meant: `images, labels = batch`."""
    loops = [outer for outer in made.context.outwards() if isinstance(outer.node, ast.For)] if made.item >= 0 else []
    turns = ((loop, iteration_of(loop.node)) for loop in loops if isinstance(loop.node, ast.For))
    return next((Item(made.item, turn.over, loop) for loop, turn in turns if is_name(turn.brought, brought.id)), None)


def is_picture(near: Origin, node: ast.expr) -> bool:
    """`Image.open(path).convert("RGB")`: its pixels are bytes, which `ToTensor` scales."""
    plain, context = source(near.file, node, near.context)
    if isinstance(plain, ast.Call) and near.file.called(plain, context) in _KEEPS_BYTES:
        return bool(plain.args) and is_picture(near._replace(context=context), plain.args[0])
    found = origins(near.file, before_methods(plain, _SIZED), context, near.entered)
    return bool(found) and all(map(_is_of_bytes, found))


def _is_of_bytes(picture: Origin) -> bool:
    if picture.name in _KEEPS_BYTES and isinstance(picture.node, ast.Call) and picture.node.args:
        return is_picture(picture, picture.node.args[0])
    converted = before_methods(picture.node, _SIZED)
    match converted:
        case ast.Call(func=ast.Attribute(value=opened, attr="convert"), args=[ast.Constant(value="RGB" | "L")]):
            opened, context = source(picture.file, before_methods(opened, _SIZED), picture.context)
            return Origin(picture.file, opened, context).name == "PIL.Image.open"
    return Origin(picture.file, converted, picture.context).name in _LOADS
