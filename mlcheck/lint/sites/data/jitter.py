"""Random changes of samples that are not written as transforms: noise in a data set, mixing in a `collate_fn`."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.data.transforms import is_random, steps_of
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import conditions, own_attribute
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import Origin
from mlcheck.lint.sites.scopes import Context

_DRAWS = ("normal", "randn", "uniform", "rand", "randn_like", "rand_like", "gauss", "normalvariate", "standard_normal")
_SPLITS = frozenset(["split", "train", "training", "is_train", "is_training", "mode", "phase", "augment", "aug"])
_SPACES = ("numpy.random.", "torch.", "random.")
_MIXES = frozenset(f"torchvision.transforms.v2.{name}" for name in ("MixUp", "CutMix"))
_MEANT = pattern(r"nois|diffus|synth|toy|fake|dummy|random|contrast|simclr|byol|corrupt|robust|perturb", re.IGNORECASE)


def noise_in_samples(cls: Class) -> ast.stmt | None:
    """Where `__getitem__` adds noise to every sample, or scales it at random, and keeps no clean one.

    Or has a method of its own do that, where the data set was told of splits and does not ask.
    """
    item = cls.methods.get("__getitem__")
    if item is None or _MEANT.search(cls.name) or _MEANT.search(cls.file.name) or "training" in item.text:
        return None
    for line in item.node.body:
        name = _changed(item, line)
        if not name and _is_split_unread(cls):
            name = _changed_by_method(cls, item, line)
        if name and not _is_kept(item, name, line) and not conditions(item.inner):
            return line
    return None


def _is_split_unread(cls: Class) -> bool:
    """`self.split = split` in the constructor, which nothing asks: the samples of all splits are treated alike."""
    init = cls.methods.get("__init__")
    if init is None:
        return False
    for name, sets in cls.attributes.items():
        value = sets[0][1].value
        if name not in _SPLITS or len(sets) > 1 or not isinstance(value, ast.Name) or value.id not in init.parameters:
            continue
        spoken = [len(re.findall(rf"\.{name}\b", file.text)) for file in cls.file.sites.mentioning([name], tests=True)]
        read = [node for node in init.nodes if is_name(node, value.id)]
        if sum(spoken) == 1 and len(read) == 1:
            return True
    return False


def _changed_by_method(cls: Class, item: Function, line: ast.stmt) -> str:
    """`x` of `x = self.augment(x)`, a method that draws at random and asks nothing of the data set; "" of all else."""
    match line:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called, args=[ast.Name(id=given)])):
            method = cls.find(own_attribute(called, item)) if name == given else None
        case _:
            return ""
    if method is None or method.node.decorator_list or not any(_draws(method, line) for line in method.node.body):
        return ""
    tests = [ast.unparse(node.test) for node in method.nodes if isinstance(node, ast.If | ast.IfExp)]
    return "" if any(f"{method.receiver}." in test for test in tests) else name


def transform_in_samples(cls: Class) -> tuple[ast.Call, Origin] | None:
    """`self.augment(image)` in `__getitem__`, of a transform that draws at random for any sample; and its step."""
    item = cls.methods.get("__getitem__")
    if item is None or _MEANT.search(cls.name) or _MEANT.search(cls.file.name) or "training" in item.text:
        return None
    for line in item.node.body:
        if isinstance(line, ast.If | ast.Try | ast.With | ast.For | ast.While) and _leaves(line):
            return None
        for node in walk(line) if isinstance(line, ast.Assign | ast.Return | ast.Expr) else ():
            name = own_attribute(node.func, item) if isinstance(node, ast.Call) else ""
            sets = cls.attribute(name) if name else []
            if len(sets) != 1 or sets[0][1].value is None or not isinstance(node, ast.Call):
                continue
            if any(isinstance(part, ast.IfExp | ast.BoolOp | ast.Lambda) for part in walk(line)):
                continue
            if _is_chosen(sets[0][1].context):
                continue
            steps = steps_of(Origin(sets[0][0].file, sets[0][1].value, sets[0][1].context)) or []
            drawn = next((step for step in steps if is_random(step)), None)
            if drawn is not None:
                return node, drawn
    return None


def _leaves(line: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in walk(line))


def _is_chosen(context: Context) -> bool:
    """Whether the transform is assigned in some branch alone."""
    return any(outer.kind in ("if", "try") for outer in context.outwards())


def mixing_collate(file: File, collate: ast.expr, context: Context) -> ast.expr | None:
    """The `MixUp` or `CutMix` that a `collate_fn` of the project always applies."""
    named = file.resolve(collate, context)
    if not isinstance(named, Function) or any(isinstance(node, ast.If | ast.IfExp) for node in named.nodes):
        return None
    for node in named.nodes:
        if isinstance(node, ast.Call):
            made, where = named.file.value(node.func, named.inner)
            maker = named.file.resolve(made.func, where) if isinstance(made, ast.Call) else None
            if isinstance(maker, str) and canonical(maker) in _MIXES:
                return node
    return None


def _changed(item: Function, line: ast.stmt) -> str:
    """`x` of `x = x + noise` and `x += noise`; "" of all else."""
    if (
        isinstance(line, ast.AugAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(line.op, ast.Add | ast.Mult)
    ):
        return line.target.id if _draws(item, line.value) else ""
    if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name) or len(line.targets) > 1:
        return ""
    name, value = line.targets[0].id, line.value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add | ast.Mult):
        return ""
    for one, other in ((value.left, value.right), (value.right, value.left)):
        if is_name(one, name) and _draws(item, other):
            return name
    return ""


def _draws(item: Function, value: ast.AST) -> bool:
    for node in walk(value):
        named = item.file.resolve(node.func, item.inner) if isinstance(node, ast.Call) else None
        if isinstance(named, str) and named.startswith(_SPACES) and named.rpartition(".")[2] in _DRAWS:
            return True
    return False


def _is_kept(item: Function, name: str, line: ast.stmt) -> bool:
    """Whether the clean sample goes on under another name, as a target does, or the noise is returned too."""
    for node in item.nodes:
        if isinstance(node, ast.Assign) and node is not line:
            others = [target for target in node.targets if not is_name(target, name)]
            if others and any(is_name(part, name) for part in walk(node.value)):
                return True
    return False
