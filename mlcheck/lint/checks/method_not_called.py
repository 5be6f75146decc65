"""method-not-called: a method of the training loop is named, and the parentheses are missing."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import File

LOOKS_AT = "training-loop method"
_UNASKED = pattern(r"\)\.(?:any|all)\b(?! *\()")
_OWNERS = ("torch.", "numpy.")
_IN_PLACE = ("copy_", "fill_", "zero_", "normal_", "uniform_", "requires_grad_", "clamp_", "mul_", "add_")
_METHODS = (
    *("zero_grad", "backward", "step", "eval", "train", "detach_", "update", "apply", "cuda", "requires_grad_"),
    *("load_state_dict", "reset_parameters", "set_epoch"),
)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _own_methods(facts)
    yield from _unasked(facts)
    yield from _assigned(facts)
    for file in facts.sites.mentioning([*(f".{name}" for name in _METHODS), ".__init__"], tests=True):
        if "torch" not in file.text:
            continue
        facts.sites.seen[LOOKS_AT] += len(file.calls(*_METHODS))
        for node, _ in file.walk.bare:
            if node.attr in _METHODS or (node.attr == "__init__" and _is_super(node.value)):
                facts.sites.seen[LOOKS_AT] += 1
                yield Finding(
                    f"`{ast.unparse(node)}` is not called, only named: this line does nothing",
                    file.place(node, file.walk.module).location,
                    help=f"write `{ast.unparse(node)}()`",
                )


def _assigned(facts: Facts) -> Iterator[Finding]:
    """`layer.weight.data.copy_ = values`, which takes the place of the method and copies nothing."""
    for file in facts.sites.mentioning([f".data.{name} = " for name in _IN_PLACE], tests=True):
        for assigned in file.walk.attributes if "torch" in file.text else ():
            target = assigned.target
            if target.attr in _IN_PLACE and isinstance(target.value, ast.Attribute) and target.value.attr == "data":
                yield Finding(
                    f"This replaces the method `{target.attr}` of a tensor that is made anew each time: "
                    "no value is changed",
                    file.place(assigned.node, assigned.context).location,
                    help=f"call it: `{ast.unparse(target)}(...)`",
                )


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and is_name(node.func, "super")


def _unasked(facts: Facts) -> Iterator[Finding]:
    """`if torch.isnan(loss).any:`, which is a method and true of every tensor."""
    for file in facts.sites.mentioning([").any", ").all"], tests=True):
        if not _UNASKED.search(file.text):
            continue
        for node in walk(file.module.source.tree):
            for part in _asked(node.test) if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp) else ():
                if _is_of_tensor(file, part.value):
                    yield Finding(
                        f"`{ast.unparse(part)}` is a method and always true: the tensor is not tested",
                        file.place(part, file.walk.module).location,
                        help=f"write `{ast.unparse(part)}()`",
                    )


def _asked(test: ast.expr) -> Iterator[ast.Attribute]:
    """The methods `any` and `all` themselves, where their truth decides."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _asked(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _asked(test.operand)
    elif isinstance(test, ast.Attribute) and test.attr in ("any", "all"):
        yield test


def _is_of_tensor(file: File, owner: ast.expr) -> bool:
    """`torch.isnan(x)`, `(a == b)`: what a function of the libraries returns, or a comparison."""
    return isinstance(owner, ast.Compare) or file.called(owner, file.walk.module).startswith(_OWNERS)


def _own_methods(facts: Facts) -> Iterator[Finding]:
    """`self.reset_parameters` as a statement of its own, where the class has such a method."""
    for file in dict.fromkeys(cls.file for cls in facts.sites.classes):
        for value, context in file.walk.bare:
            method = file.method_around(context)
            if method is None or not isinstance(value.value, ast.Name) or value.value.id != method.receiver:
                continue
            meant = method.cls.find(value.attr) if method.cls is not None and value.attr not in _METHODS else None
            if meant is not None and not meant.node.decorator_list:
                yield Finding(
                    f"`{ast.unparse(value)}` is not called, only named: this line does nothing",
                    method.place(value).location,
                    help=f"write `{ast.unparse(value)}()`",
                )
