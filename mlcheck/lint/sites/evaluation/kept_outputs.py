"""Lists that the steps of a Lightning module fill, and that each epoch averages without ever emptying them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import is_attribute, last_name, own_nodes, walk
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites

_ENDS = {
    "validation_step": ("on_validation_epoch_end", "on_validation_end"),
    "training_step": ("on_train_epoch_end", "on_validation_epoch_end"),
}
_FILLS = ("append", "extend")
_HISTORY = pattern(r"histor|curve|all_epochs|epochs?_", re.IGNORECASE)
_GATHERS = pattern(
    r"^(?:torch\.(?:stack|cat|tensor|mean|sum|as_tensor)|np\.\w+|numpy\.\w+|sum|len|statistics\.f?mean|\w*_score)$"
)


class Kept(NamedTuple):
    """Where an epoch takes the mean of a list, the list's name, and where a step fills it."""

    read: Place
    name: str
    filled: Place


def kept_outputs(sites: Sites) -> Iterator[Kept]:
    """`self.losses.append(loss)` in `validation_step`, `torch.stack(self.losses).mean()` when each epoch ends."""
    for file in sites.mentioning(["_epoch_end", "on_validation_end"]):
        for cls in file.classes:
            if any(name.endswith("LightningModule") for name in cls.libraries):
                yield from _kept(sites, cls, [other for other in sites.classes if cls in other.line])


def _kept(sites: Sites, cls: Class, heirs: list[Class]) -> Iterator[Kept]:
    family = list(dict.fromkeys([*cls.line, *(each for heir in heirs for each in heir.line)]))
    for name in (name for each in cls.line for name in each.attributes):
        sets = [pair for each in family for pair in each.attributes.get(name, [])]
        if _HISTORY.search(name) or not sets or not all(_begins_empty(function, a.value) for function, a in sets):
            continue
        if _is_emptied(sites, family, name):
            continue
        for step, ends in _ENDS.items():
            filled = next(iter(_fillings(family, step, name)), None)
            reads = [place for end in ends if end in cls.methods for place in _means(cls.methods[end], name)]
            if filled is not None and reads:
                yield Kept(reads[0], name, filled)
                break


def _begins_empty(function: Function, value: ast.expr | None) -> bool:
    """`self.losses = []`, `{}`, `{"loss": []}`, `defaultdict(list)`, in the constructor."""
    if function.name != "__init__" or value is None:
        return False
    if isinstance(value, ast.Dict):
        return all(isinstance(each, ast.List) and not each.elts for each in value.values)
    if isinstance(value, ast.Call):
        return ast.unparse(value) in ("list()", "dict()") or last_name(value.func) == "defaultdict"
    return isinstance(value, ast.List) and not value.elts


def _is_emptied(sites: Sites, family: list[Class], name: str) -> bool:
    """Whether anybody may take out again what was put in; a list that is handed on may be emptied where it goes."""
    word = re.escape(name)
    emptied = re.compile(
        rf"\.{word}(?:\[[^\]\n]*\])*(?:\.(?:clear|pop|remove|popleft)\b|(?:\[[^\]\n]*\])+ = )|del [^\n]*\.{word}\b"
    )
    outside = re.compile(rf"(?<!self)\.{word} = ")
    named = re.compile(rf"[\"']{word}[\"']")
    for file in sites.mentioning([name]):
        if emptied.search(file.text) or outside.search(file.text) or named.search(file.text):
            return True
    return any(_is_handed_on(method, name) for cls in family for method in cls.methods.values())


def _is_handed_on(method: Function, name: str) -> bool:
    """Whether the method does with the list what is not known to leave it as it is."""
    if f".{name}" not in method.text:
        return False
    for node in own_nodes(method.node):
        known = isinstance(node, ast.Call) and bool(_GATHERS.search(ast.unparse(node.func)))
        given = (
            [*node.args, *(word.value for word in node.keywords)] if isinstance(node, ast.Call) and not known else []
        )
        items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
        value = [node.value] if isinstance(node, ast.Assign | ast.Return | ast.NamedExpr) and node.value else []
        if any(_is_list(part, method, name) for part in (*given, *items, *value)):
            return True
    return False


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(word.value for word in call.keywords)]


def _is_list(node: ast.expr, method: Function, name: str) -> bool:
    while isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Slice):
            return False
        node = node.value
    is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    return is_read and is_attribute(node, method.receiver, name)


def _fillings(family: list[Class], step: str, name: str) -> Iterator[Place]:
    """Where the step, or a method that it calls, puts something into the list."""
    for cls in family:
        method = cls.methods.get(step)
        called = [method, *_called(cls, method)] if method is not None else []
        for function in called:
            for node in function.nodes:
                match node:
                    case ast.Call(func=ast.Attribute(value=owner, attr=verb)) if verb in _FILLS:
                        target = owner
                    case ast.AugAssign(op=ast.Add(), target=target):
                        pass
                    case _:
                        continue
                while isinstance(target, ast.Subscript):
                    target = target.value
                if is_attribute(target, function.receiver, name):
                    yield function.place(node)


def _called(cls: Class, method: Function) -> Iterator[Function]:
    for node in method.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found = cls.find(node.func.attr)
            if found is not None and ast.unparse(node.func.value) == method.receiver:
                yield found


def _means(method: Function, name: str) -> Iterator[Place]:
    """`torch.stack(self.losses)`, `np.mean(self.outputs["loss"])`, `[mean(each) for each in self.losses]`."""
    for node in method.nodes:
        if isinstance(node, ast.Call) and _GATHERS.search(ast.unparse(node.func)) and last_name(node.func) != "len":
            if any(_is_list(part, method, name) for part in node.args):
                yield method.place(node)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp):
            if any(_is_list(turn.iter, method, name) for turn in node.generators):
                yield method.place(node)
    for part in (part for node in method.nodes if isinstance(node, ast.For) for part in walk(node.iter)):
        if isinstance(part, ast.expr) and _is_list(part, method, name):
            yield method.place(part)
