"""constant-not-buffer: a constant tensor that stays behind when its module is moved to another device."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import AttributeSet, Class, Sites
from mlcheck.lint.sites.modules import is_plain, module_classes, text_of

LOOKS_AT = "module class"
_FACTORIES = frozenset(
    f"torch.{name}"
    for name in (
        "tensor",
        "zeros",
        "ones",
        "full",
        "eye",
        "arange",
        "linspace",
        "randn",
        "rand",
        "FloatTensor",
        "Tensor",
    )
)
_MOVES = (".to(", ".cuda(", "device", "type_as", ".cpu(", "to_device", "new_tensor", ".type(", "as_tensor")


def check(facts: Facts) -> Iterator[Finding]:
    if not _moves_modules(facts.sites):
        return
    for cls in facts.sites.once(module_classes):
        if not is_plain(cls):
            continue
        for name, assignments in cls.attributes.items():
            if len(assignments) == 1 and assignments[0][0].name == "__init__" and _is_constant(cls, assignments[0][1]):
                used = _used_with_input(cls, name)
                if used is not None:
                    function, assigned = assignments[0]
                    yield Finding(
                        f"`self.{name}` is a plain tensor: `model.to(device)` leaves it on the CPU, "
                        "and no checkpoint holds it",
                        function.place(assigned.node).location,
                        help=f'use `self.register_buffer("{name}", ...)`; with `persistent=False` it is not saved',
                        related=(cls.file.place(used, function.inner).location,),
                    )


def _moves_modules(sites: Sites) -> bool:
    """Whether the program knows of another device than the CPU."""
    return any(True for _ in sites.mentioning(["cuda", "to(device", "device=", "LightningModule", "accelerat", "mps"]))


def _is_constant(cls: Class, assigned: AttributeSet) -> bool:
    """A tensor of at least one dimension, made on the default device."""
    node = assigned.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        if node.func.attr not in ("float", "view", "reshape", "unsqueeze", "double", "repeat", "expand", "long", "t"):
            return False
        node = node.func.value
    if not isinstance(node, ast.Call) or cls.file.resolve(node.func, assigned.context) not in _FACTORIES:
        return False
    if any(keyword.arg in ("device", "requires_grad", None) for keyword in node.keywords) or not node.args:
        return False
    named = cls.file.resolve(node.func, assigned.context)
    first = node.args[0]
    if named == "torch.tensor":
        return isinstance(first, ast.List | ast.Tuple) and bool(first.elts)
    return not (isinstance(first, ast.Tuple | ast.List) and not first.elts)


def _used_with_input(cls: Class, name: str) -> ast.AST | None:
    """Where `forward` computes with `self.name`, if all uses are such and none moves it first."""
    if f'"{name}"' in text_of(cls) or f"'{name}'" in text_of(cls):
        return None
    used = None
    for method in (method for base in cls.line for method in base.methods.values() if method.name != "__init__"):
        for statement in _statements(method.node):
            if not _names(statement, method.receiver, name):
                continue
            text = cls.file.module.text_of(statement)
            if any(word in text for word in _MOVES):
                return None
            if method.name == "forward":
                used = used or _operand(statement, method.receiver, name)
    return used


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    """The simple statements of a function, and the headers of its compound ones are left out."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr | ast.Assert):
            yield node


def _names(node: ast.AST, receiver: str, name: str) -> bool:
    return any(_is_it(child, receiver, name) for child in ast.walk(node))


def _is_it(node: ast.AST, receiver: str, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == receiver
    )


def _operand(statement: ast.AST, receiver: str, name: str) -> ast.AST | None:
    """An arithmetic operation with `self.name` as one side and something that is no constant as the other."""
    for node in ast.walk(statement):
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            if any(_is_it(_bare(side), receiver, name) for side in sides):
                if not any(isinstance(side, ast.Constant) for side in sides) and _has_local(sides, receiver):
                    return node
    return None


def _bare(node: ast.expr) -> ast.expr:
    """`self.c[None, :]` and `self.c.view(1, -1)` are on the device of `self.c`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return node


def _has_local(sides: tuple[ast.expr, ast.expr], receiver: str) -> bool:
    """Whether a side computes with a local name, as an input is."""
    return any(isinstance(node, ast.Name) and node.id != receiver for side in sides for node in ast.walk(side))
