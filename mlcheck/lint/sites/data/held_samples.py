"""Samples that a data set holds in memory, and hands out as views of what it holds."""

from __future__ import annotations

import ast
import re

from mlcheck.lint.nodes import assigned, is_name, last_name, loads, stores_of, walk
from mlcheck.lint.sites.layers.modules import text_of
from mlcheck.lint.sites.layers.overwriting import METHODS, Overwriting
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.scopes import AttributeSet
from mlcheck.lint.sites.straight import rebound_between

_TENSORS = frozenset(
    f"torch.{name}"
    for name in ("stack", "cat", "tensor", "from_numpy", "as_tensor", "randn", "rand", "zeros", "FloatTensor", "Tensor")
)
_OF_TENSORS = "float|size|unsqueeze|permute|view|double|long|numel"
_ARRAYS = frozenset(
    f"numpy.{name}" for name in ("load", "array", "stack", "concatenate", "loadtxt", "genfromtxt", "zeros", "vstack")
)
_OF_ARRAYS = ("astype", "reshape", "transpose", "copy")


def held_sample(reads: Function, change: Overwriting) -> ast.Attribute | None:
    """`self.data` where the name holds `self.data[index]` when it is changed."""
    last: tuple[ast.Assign, ast.expr] | None = None
    for node in walk(reads.node):
        if isinstance(node, ast.Assign) and node.lineno < change.node.lineno:
            for target, value in assigned(node):
                if is_name(target, change.name):
                    last = (node, value) if last is None or node.lineno > last[0].lineno else last
    if last is None or rebound_between(reads.node, last[0], change.node, change.name) or not _is_plain(last[1]):
        return None
    owner = last[1].value if isinstance(last[1], ast.Subscript) else None
    if isinstance(owner, ast.Attribute) and is_name(owner.value, reads.receiver):
        return owner
    return None


def _is_plain(node: ast.expr) -> bool:
    """`self.data[index]` with the index that was asked for: one sample, which is a view and no copy."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name)


def is_view(cls: Class, reads: Function, attribute: str, name: str) -> bool:
    """Whether `name`, an item of `self.attribute`, certainly shares its memory: a tensor, or a row of an array."""
    if _is_tensor(cls, attribute) or _is_used_as_tensor(reads, name):
        return True
    return _is_array(cls, attribute) and _is_row(reads, name)


def _is_used_as_tensor(reads: Function, name: str) -> bool:
    """`torch.randn_like(x)`, `x.clamp_(0, 1)`, where `x` is bound once: no array and no number takes that."""
    if len([node for node in stores_of(reads.nodes, name) if node not in _augmented(reads)]) != 1:
        return False
    for call in reads.all(ast.Call):
        func = call.func
        if isinstance(func, ast.Attribute) and is_name(func.value, name) and func.attr in METHODS:
            return True
        if call.args and is_name(call.args[0], name) and last_name(func).endswith("_like"):
            named = reads.file.resolve(func, reads.inner)
            if isinstance(named, str) and named.startswith("torch."):
                return True
    return False


def _augmented(reads: Function) -> list[ast.expr]:
    return [node.target for node in reads.all(ast.AugAssign)]


def _is_array(cls: Class, name: str) -> bool:
    """`np.load(path)["x"].astype(np.float32)`; what is mapped from a file, or opened by others, is read anew."""
    sets = cls.attribute(name)
    for function, each in sets:
        node = each.value
        while isinstance(node, ast.Subscript) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_ARRAYS
        ):
            node = node.value if isinstance(node, ast.Subscript) else getattr(node.func, "value", None)
        made = function.file.resolve(node.func, each.context) if isinstance(node, ast.Call) else None
        if made not in _ARRAYS or not isinstance(node, ast.Call) or any(w.arg == "mmap_mode" for w in node.keywords):
            return False
    return bool(sets)


def _is_row(reads: Function, name: str) -> bool:
    """`torch.from_numpy(x)`: an array, as no single number is."""
    return any(
        isinstance(node, ast.Call) and last_name(node.func) == "from_numpy" and node.args and loads(node.args[0], name)
        for node in reads.nodes
    )


def _is_tensor(cls: Class, name: str) -> bool:
    """Whether the attribute certainly holds a tensor: only then `+=` changes it, and does not make a new number."""
    text = text_of(cls)
    if re.search(rf"self\.{name}\.(?:{_OF_TENSORS})\(", text):
        return True
    if "torch.load(" in text and re.search(rf"self\.{name}\.(?:mean|std)\(", text) and "np." not in text:
        return True
    sets = cls.attribute(name)
    return bool(sets) and all(_makes_tensor(function, assigned) for function, assigned in sets)


def _makes_tensor(function: Function, assigned: AttributeSet) -> bool:
    """`torch.stack(...)`, `torch.from_numpy(...).float()`."""
    node = assigned.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if function.file.resolve(node.func, assigned.context) in _TENSORS:
            return True
        if re.fullmatch(f"{_OF_TENSORS}|to|div|mul|sub|add|contiguous|clone|squeeze", node.func.attr) is None:
            return False
        node = node.func.value
    return isinstance(node, ast.Call) and function.file.resolve(node.func, assigned.context) in _TENSORS
