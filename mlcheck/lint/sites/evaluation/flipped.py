"""Predictions of flipped pictures that are averaged with those of the pictures: whether they are flipped back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, is_name, last_name, walk
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.lines import Lines, all_lines
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites

_FLIPS = ("flip", "fliplr", "flipud", "hflip", "vflip", "rot90")
_PLAIN = frozenset(["sigmoid", "softmax", "detach", "cpu", "float", "exp", "log_softmax", "to", "squeeze", "numpy"])
_DENSE = ("segmentation_models_pytorch.", "torchvision.models.segmentation.", "monai.networks.nets.UNet")
_JOINS = ("stack", "cat", "mean", "sum", "concatenate")
_MANY = 12
_POOLS = (
    "Linear(",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "adaptive_",
    "Flatten",
    "flatten(",
    ".mean(",
    ".amax(",
    ".sum(",
)
_UPSCALES = ("ConvTranspose2d", "ConvTranspose3d", "interpolate(", "nn.Upsample", "PixelShuffle")


class Unflipped(NamedTuple):
    """The call on the flipped picture, and where it is put beside the other one's."""

    asked: Place
    flipped: ast.expr


def unflipped(sites: Sites) -> Iterator[Unflipped]:
    """`net(x) + net(x.flip(3))`, of a network that tells something of each pixel."""
    for file in sites.mentioning(_FLIPS) if sites.uses_torch else ():
        for lines in all_lines(file):
            for one, other in _averaged(lines) if "flip" in lines.text or "rot90" in lines.text else ():
                yield from _beside(lines, one, other)
                yield from _beside(lines, other, one)


def _averaged(lines: Lines) -> Iterator[tuple[ast.expr, ast.expr]]:
    """`a + b`, `total += b` behind `total = a`, `torch.stack([a, b])`, and what is appended to one list."""
    kept: dict[str, list[ast.expr]] = {}
    for node in lines.nodes:
        match node:
            case ast.BinOp(left=one, op=ast.Add(), right=other):
                yield one, other
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
                begun = [line.value for line in lines.all(ast.Assign) if is_name(line.targets[0], name)]
                yield from ((one, value) for one in begun)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=parts)) if len(parts) > 1:
                kept.setdefault(name, []).extend(parts)
            case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]) if len(parts) < _MANY:
                yield from combinations(parts, 2) if last_name(node.func) in _JOINS else ()
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
                kept.setdefault(name, []).append(value)
    joined = {last_name(part) for call in lines.all(ast.Call) if last_name(call.func) in _JOINS for part in call.args}
    for name, values in kept.items():
        yield from combinations(values, 2) if name in joined and len(values) < _MANY else ()


def _beside(lines: Lines, plain: ast.expr, turned: ast.expr) -> Iterator[Unflipped]:
    one, other = _asked(lines, plain), _asked(lines, turned)
    if one is None or other is None or ast.unparse(one.func) != ast.unparse(other.func):
        return
    first, second = _given(lines, one), _given(lines, other)
    if first is None or second is None or not _is_flip(second) or _is_flip(first):
        return
    picture = ast.unparse(one.args[0])
    flips = [node for node in lines.all(ast.Call) if _is_flip(node)]
    if all(ast.unparse(_unflipped(node)) == picture for node in flips) and _is_dense(lines, one.func):
        yield Unflipped(lines.file.place(other, lines.context), second)


def _asked(lines: Lines, node: ast.expr) -> ast.Call | None:
    """`net(x)` of `net(x).sigmoid()` and of `torch.softmax(net(x), 1)`; of a sum, what it ends with."""
    for _ in range(4):
        node, _ = source(lines.file, node, lines.context)
        if not isinstance(node, ast.Call) or last_name(node.func) not in _PLAIN:
            break
        of_torch = lines.file.called(node, lines.context).startswith("torch.")
        node = node.args[0] if of_torch and node.args else before_methods(node, _PLAIN)
    return node if isinstance(node, ast.Call) and len(node.args) == 1 else None


def _given(lines: Lines, call: ast.Call) -> ast.expr | None:
    node, _ = source(lines.file, call.args[0], lines.context)
    return node


def _is_flip(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _FLIPS


def _unflipped(node: ast.expr) -> ast.expr:
    """`x` of `torch.flip(x, dims=[3])` and of `x.flip(3)`."""
    assert isinstance(node, ast.Call)
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    of_library = owner is None or last_name(owner) in ("torch", "F", "TF", "np", "numpy", "functional")
    return node.args[0] if of_library or owner is None else owner


def _is_dense(lines: Lines, network: ast.expr) -> bool:
    """Whether it is certain to answer with a picture: a model of segmentation, or one that scales up in the end."""
    found = origins(lines.file, network, lines.context)
    for each in found:
        made = before_methods(each.node, ("to", "cuda", "eval"))
        kind = each.file.resolve(made.func, each.context) if isinstance(made, ast.Call) else None
        if isinstance(kind, str) and kind.startswith(_DENSE):
            continue
        if not isinstance(kind, Class) or not any(word in _text(kind) for word in _UPSCALES):
            return False
    return bool(found)


def _text(cls: Class) -> str:
    """The text of a class and of those that it is made of; nothing where one of them may pool the picture."""
    found = list(cls.line)
    for each in found:
        calls = (node for node in walk(each.node) if isinstance(node, ast.Call))
        made = (each.file.resolve(call.func, each.defined.inner) for call in calls)
        found += [kind for kind in dict.fromkeys(made) if isinstance(kind, Class) and kind not in found][:_MANY]
    text = "".join(each.text for each in found)
    return "" if any(word in text for word in _POOLS) else text
