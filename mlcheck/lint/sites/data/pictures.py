"""Pictures as they come from a file: height, width, channels."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import before_methods, is_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, origin, source
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.scopes import Context

KEEPS = frozenset(
    ["contiguous", "clone", "float", "double", "half", "astype", "copy", "to", "cuda", "cpu", "numpy", "detach", "long"]
)
_ELEMENTWISE = ("div", "mul", "add", "sub", "div_", "mul_", "add_", "sub_", "clamp", "type")
_KEEPERS = ("torch.from_numpy", "torch.as_tensor", "torch.tensor", "numpy.ascontiguousarray", "numpy.asarray")
_READERS = frozenset(
    [
        *("cv2.imread", "PIL.Image.open", "matplotlib.pyplot.imread", "matplotlib.image.imread"),
        *("imageio.imread", "imageio.v2.imread", "imageio.v3.imread", "skimage.io.imread"),
    ]
)
_COPIES = frozenset(
    [
        *("numpy.array", "numpy.asarray", "numpy.float32", "numpy.ascontiguousarray", "cv2.resize", "cv2.cvtColor"),
        *("torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.FloatTensor"),
    ]
)
_STACKS = ("numpy.stack", "numpy.array", "numpy.asarray")
_FACTORIES = frozenset(["numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full"])


def before_copies(file: File, owner: ast.expr, context: Context) -> ast.expr:
    """`image` of `torch.from_numpy(image).float().div(255)`: the calls that keep the order of what they are given."""
    while isinstance(owner, ast.Call):
        plain = before_methods(owner, KEEPS)
        match plain:
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[ast.Constant()]) if name in _ELEMENTWISE:
                plain = inner
            case ast.Call(args=[ast.Name() as inner]) if file.called(plain, context) in _KEEPERS:
                plain = inner
        if plain is owner:
            break
        owner = plain
    return owner


def is_picture(file: File, node: ast.expr, context: Context, channels: str, depth: int = 8) -> bool:
    """Whether the value is certainly a picture with that many channels, which stand last."""
    if depth == 0:
        return False
    node = before_methods(node, KEEPS)
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        return is_picture(file, node.left, context, channels, depth - 1)
    if isinstance(node, ast.Name):
        found, where = source(file, node, context)
        if not isinstance(found, ast.Name):
            return is_picture(file, found, where, channels, depth - 1)
        return _is_returned(file, found, where, channels, depth)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and channels == "3":
        return not isinstance(node.slice, ast.Slice | ast.Tuple) and _holds_clip(file, node.value, context)
    if not isinstance(node, ast.Call):
        return False
    named = file.resolve(node.func, context)
    if named in _READERS:
        return channels == "3"
    if named in _COPIES and node.args:
        return is_picture(file, node.args[0], context, channels, depth - 1)
    if named in _FACTORIES and node.args and isinstance(node.args[0], ast.Tuple) and len(node.args[0].elts) == 3:
        return ast.unparse(node.args[0].elts[2]) == channels
    if isinstance(node.func, ast.Attribute) and node.func.attr == "resize" and len(node.args) == 1:
        return is_picture(file, node.func.value, context, channels, depth - 1)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "convert" and node.args:
        rgb = isinstance(node.args[0], ast.Constant) and node.args[0].value == "RGB"
        return rgb and is_picture(file, node.func.value, context, channels, depth - 1)
    if isinstance(named, Function) and not named.node.decorator_list:
        given = list(returns(named))
        return bool(given) and all(is_picture(named.file, each, named.inner, channels, depth - 1) for each in given)
    return False


def _is_returned(file: File, node: ast.Name, context: Context, channels: str, depth: int) -> bool:
    """A picture among the values that a function of the project returns; `ok, frame = video.read()`."""
    found = latest(file, node, context)
    value, where = origin(file, node, context)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "read":
        video, at = source(file, value.func.value, where)
        return found is not None and found.item == 1 and file.called(video, at) == "cv2.VideoCapture"
    named = file.resolve(value.func, where) if isinstance(value, ast.Call) else None
    if not isinstance(named, Function) or found is None or found.kind != "item":
        return False
    given = [n.value for n in walk(named.node) if isinstance(n, ast.Return)]
    if len(given) != 1 or not isinstance(given[0], ast.Tuple) or found.item >= len(given[0].elts):
        return False
    return is_picture(named.file, given[0].elts[found.item], named.inner, channels, depth - 1)


def has_channels_last(call: Call, owner: ast.expr, sizes: list[ast.expr]) -> bool:
    """Whether a picture (height, width, channels) is given the sizes of (channels, height, width)."""
    texts = [ast.unparse(size) for size in sizes]
    if len(texts) == 4 and texts[-1] != "3" and "3" in texts[:2] and _is_clip(call.file, owner, call.context):
        return True
    first = len(texts) - 3
    if first not in (0, 1) or texts[first] not in ("3", "4") or texts[-1] == texts[first]:
        return False
    if first == 1 and texts[0] not in ("1", "-1"):
        return False
    return is_picture(call.file, owner, call.context, texts[first])


def _holds_clip(file: File, node: ast.Attribute, context: Context) -> bool:
    """`self.images`, which the constructor makes a stack of pictures, and nobody assigns again."""
    function = file.function_around(context)
    name = node.attr if function is not None and is_name(node.value, function.receiver) else ""
    sets = function.cls.attribute(name) if name and function is not None and function.cls is not None else []
    value = sets[0][1].value if len(sets) == 1 else None
    return value is not None and _is_clip(sets[0][0].file, value, sets[0][1].context)


def _is_clip(file: File, node: ast.expr, context: Context, depth: int = 6) -> bool:
    """Whether the value is certainly a stack of pictures, `np.stack(frames)`: time, height, width, channels."""
    if depth == 0:
        return False
    node = before_copies(file, node, context)
    if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        return _is_clip(file, node.left, context, depth - 1)
    found, where = source(file, node, context)
    if found is not node:
        return _is_clip(file, found, where, depth - 1)
    if not isinstance(node, ast.Call) or not node.args:
        return False
    named = file.resolve(node.func, context)
    if named in _KEEPERS and named not in _STACKS:
        return _is_clip(file, node.args[0], context, depth - 1)
    if named in _STACKS:
        return not node.keywords and len(node.args) == 1 and _are_pictures(file, node.args[0], context)
    if isinstance(named, Function) and not named.node.decorator_list:
        given = list(returns(named))
        return bool(given) and all(_is_clip(named.file, each, named.inner, depth - 1) for each in given)
    return False


def _are_pictures(file: File, listed: ast.expr, context: Context) -> bool:
    """`[cv2.imread(p) for p in paths]`, or a list that pictures alone are appended to."""
    held, where = source(file, listed, context)
    if isinstance(held, ast.ListComp):
        return is_picture(file, held.elt, Context("comprehension", held, where, where.scope), "3")
    if not isinstance(listed, ast.Name) or not isinstance(held, ast.List) or held.elts:
        return False
    function = file.function_around(context)
    changes = [
        (node, at) for node, at in file.walk.mutations.get(listed.id, ()) if file.function_around(at) is function
    ]
    return bool(changes) and all(
        isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "append"
        and len(node.args) == 1
        and is_picture(file, node.args[0], at, "3")
        for node, at in changes
    )
