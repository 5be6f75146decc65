"""constant-not-buffer: a constant tensor that stays behind when its module is moved to another device."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_attribute, is_none, last_name, walk
from mlcheck.lint.sites import AttributeSet, Class, Function, Sites
from mlcheck.lint.sites.constants import ANY, made_by
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.filling import filled
from mlcheck.lint.sites.layers.in_place import NUMBERS, has_local, met_in_list, operands, plain, written_in_place
from mlcheck.lint.sites.layers.leaves import leaf_of
from mlcheck.lint.sites.layers.modules import PARAMETER, is_plain, module_classes, text_of
from mlcheck.lint.sites.layers.random_orders import random_orders
from mlcheck.lint.sites.layers.set_by_name import is_operand, set_by_name

LOOKS_AT = "module class"
_RANDOM = ("torch.rand", "torch.randn")
_ELSEWHERE = ("cuda", "to(device", "device=", "LightningModule", "accelerat", "mps", ".double()", ".half()", "bfloat16")
_SPREADS = ("view", "reshape", "unsqueeze", "expand", "repeat")
_PROGRAM = (".backward(", ".step(", "__main__")  # modules alone are made for programs that will move them
_WITH_TENSORS = frozenset(
    ["cdist", "matmul", "bmm", "mm", "linear", "conv1d", "conv2d", "mse_loss", "cosine_similarity"]
)
_WITH_MASK = ("masked_fill", "masked_fill_", "where", "masked_select")
_AS_OPERAND = ("attn_mask", "src_mask", "tgt_mask", "weight", "pos_weight")
_COUNTS = frozenset([*NUMBERS, "len", "range", "int", "sum", "mean", "max", "min", "prod", "norm", "std", "var"])
_FRESH = frozenset(["arange", "linspace", "zeros", "ones", "full", "tensor", "eye", "cpu", "numpy", "zip", "enumerate"])
_MOVES = (".to(", ".cuda(", "device", "type_as", ".cpu(", "to_device", "new_tensor", ".type(", "as_tensor")


def check(facts: Facts) -> Iterator[Finding]:
    moved = _mentions(facts.sites, _ELSEWHERE) or not _mentions(facts.sites, _PROGRAM)
    saved = _mentions(facts.sites, ("state_dict",))
    for order in random_orders(facts.sites):
        yield Finding(
            f"`self.{order.name}` is drawn at random, and no checkpoint holds it: loaded weights meet another order",
            order.function.place(order.assigned.node).location,
            help=f'use `self.register_buffer("{order.name}", ...)`',
            related=(order.cls.file.place(order.used, order.function.inner).location,),
        )
    if not moved and not saved:
        return
    for cls in facts.sites.once(module_classes):
        if not is_plain(cls):
            continue
        for each in set_by_name(cls) if moved else ():
            made = made_by(cls, each.assigned)
            if made is not None and made != ANY and is_operand(each, _MOVES):
                yield _finding(cls, each.name, each.function, each.assigned, made, each.read)
        for name, found in cls.attributes.items():
            assignments = [each for each in found if not _is_parameter(cls, *each)] or found
            function, assigned = assignments[0]
            if function.name != "__init__" or not all(_renews(name, *later) for later in assignments[1:]):
                continue
            made = made_by(cls, assigned)
            if made is None:
                continue
            leaf = leaf_of(function, assigned)
            learnt = leaf is not None and leaf.asks
            if learnt or filled(facts.sites, cls, name, function, assigned):  # a parameter: param-unregistered tells it
                continue
            used = _used_with_input(cls, name)
            written = used is not None and written_in_place(used, function.receiver, name)
            lasts = made in _RANDOM or len(assignments) > 1 or written  # what no constructor makes again
            if not (moved or (saved and lasts)):
                continue
            if used is not None and (made != ANY or isinstance(used, ast.keyword) or _is_spread(used, name)):
                yield _finding(cls, name, function, assigned, made, used)


def _finding(cls: Class, name: str, function: Function, assigned: AttributeSet, made: str, used: ast.AST) -> Finding:
    lost = "each run draws a different one, and no checkpoint holds it" if made in _RANDOM else "no checkpoint holds it"
    what = "holds plain tensors" if isinstance(assigned.value, ast.ListComp) else "is a plain tensor"
    return Finding(
        f"`self.{name}` {what}: `model.to(...)` leaves it behind, {lost}",
        function.place(assigned.node).location,
        help=f'use `self.register_buffer("{name}", ...)`; with `persistent=False` it is not saved',
        related=(cls.file.place(used, function.inner).location,),
    )


def _is_parameter(cls: Class, function: Function, assigned: AttributeSet) -> bool:
    """`nn.Parameter(...)` under one condition of the constructor, beside a plain tensor under the other."""
    made = assigned.value
    return (
        function.name == "__init__"
        and isinstance(made, ast.Call)
        and cls.file.resolve(made.func, assigned.context) in (PARAMETER, "torch.nn.parameter.Parameter")
        and any(outer.kind == "if" for outer in assigned.context.outwards())
    )


def _is_spread(used: ast.AST, name: str) -> bool:
    """`x * self.weight.view(1, -1)`, `x + self.bias[None]`: it has a dimension, and works from no other device."""
    return any(_has_dimension(node) and last_name(plain(node)) == name for node in walk(used))


def _has_dimension(node: ast.AST) -> TypeGuard[ast.expr]:
    if isinstance(node, ast.Subscript):
        return any(isinstance(part, ast.Slice) or is_none(part) for part in walk(node.slice))
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(node, ast.Call) and isinstance(func, ast.Attribute) and func.attr in _SPREADS and bool(node.args)


def _mentions(sites: Sites, words: tuple[str, ...]) -> bool:
    return any(True for _ in sites.mentioning(words))


def _renews(name: str, function: Function, later: AttributeSet) -> bool:
    """`self.mean = 0.9 * self.mean + ...`, `self.sum += x`: carried on, no parameter or buffer, and not moved.

    Or `self.state = new.detach()`, where `new = f * self.state + ...` stands before.
    """
    carried = later.node if isinstance(later.node, ast.AugAssign) else later.value
    if carried is None:
        return False
    read = (node for node in walk(carried) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    steps = [carried, *(source(function.file, node, function.inner)[0] for node in read)]
    text = " ".join(map(ast.unparse, steps))
    other = ("Parameter(", "Buffer(", *_MOVES)
    return f"self.{name}" in text and not any(word in text for word in other)


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
        if method.name == "forward" and used is None:
            used = _used_later(method, name)
    return used


def _used_later(forward: Function, name: str) -> ast.AST | None:
    """Where what `forward` computes of `self.name` alone meets its input: `rv = self.var.view(1, -1)`, `x * rv`."""
    given, held = set(forward.parameters) - {forward.receiver}, {f"{forward.receiver}.{name}"}
    for statement in _statements(forward.node):
        texts = [ast.unparse(node) for node in walk(statement) if isinstance(node, ast.Name | ast.Attribute)]
        mine, foreign = not held.isdisjoint(texts), not given.isdisjoint(texts)
        if mine and (any(word in ast.unparse(statement) for word in _MOVES) or _is_taken(statement, held)):
            return None
        if mine and foreign and (met := _meeting(forward, statement, held, given)) is not None:
            return met
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        held, given = held - names, given - names
        counted = _is_counted(statement)
        if foreign and not counted:
            given |= names
        elif mine and not foreign and not counted:
            held |= names
    return None


def _is_counted(statement: ast.stmt) -> bool:
    """Whether a number, or a tensor of nobody's device, may come of it: `n = x.size(0)`, `t = torch.arange(n)`."""
    return any(
        last_name(node.func) in _COUNTS | _FRESH if isinstance(node, ast.Call) else node.attr in ("shape", "ndim")
        for node in walk(statement)
        if isinstance(node, ast.Call | ast.Attribute)
    )


def _is_taken(statement: ast.stmt, held: set[str]) -> bool:
    """`self.betas[t]`: one number of many, which works from the CPU."""
    return any(
        isinstance(node, ast.Subscript)
        and ast.unparse(plain(node)) in held
        and not any(isinstance(part, ast.Slice) or is_none(part) for part in walk(node.slice))
        for node in walk(statement)
    )


def _meeting(forward: Function, statement: ast.stmt, held: set[str], given: set[str]) -> ast.AST | None:
    """An operation, or a function of tensors, that is given both."""
    for node in walk(statement):
        if isinstance(node, ast.BinOp):
            parts = list(operands(node))
        elif isinstance(node, ast.Call) and _is_of_tensors(forward, node):
            listed = node.args[0].elts if node.args and isinstance(node.args[0], ast.List | ast.Tuple) else []
            parts = [*node.args, *listed]
        else:
            continue
        bare = {ast.unparse(plain(part)) for part in parts}
        if not held.isdisjoint(bare) and not given.isdisjoint(bare):
            return node
    return None


def _is_of_tensors(forward: Function, call: ast.Call) -> bool:
    """`torch.outer`, `F.batch_norm`: a function of PyTorch that computes."""
    named = forward.file.resolve(call.func, forward.inner)
    module = canonical(named).rpartition(".")[0] if isinstance(named, str) else ""
    return module in ("torch", "torch.nn.functional")


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    """The simple statements of a function, and the headers of its compound ones are left out."""
    for node in walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr | ast.Assert):
            yield node


def _names(node: ast.AST, receiver: str, name: str) -> bool:
    return any(is_attribute(child, receiver, name) for child in walk(node))


def _operand(statement: ast.AST, receiver: str, name: str) -> ast.AST | None:
    """An arithmetic operation with `self.name` as one side and something that is no constant as the other."""
    for node in walk(statement):
        if isinstance(node, ast.ListComp) and (met := met_in_list(node, receiver, name)) is not None:
            return met
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WITH_MASK:
            masks = [arg.left if isinstance(arg, ast.Compare) else arg for arg in node.args]
            if any(is_attribute(plain(mask), receiver, name) for mask in masks):
                return node
        if (
            isinstance(node, ast.keyword)
            and node.arg in _AS_OPERAND
            and is_attribute(plain(node.value), receiver, name)
        ):
            return node
        if written_in_place(node, receiver, name):
            return node
        if isinstance(node, ast.Call) and last_name(node.func) in _WITH_TENSORS and len(node.args) > 1:
            given = any(is_attribute(plain(arg), receiver, name) for arg in node.args)
            if given and any(has_local((arg, arg), receiver) for arg in node.args):
                return node
        if isinstance(node, ast.BinOp):
            parts = list(operands(node))
            if any(is_attribute(plain(part), receiver, name) for part in parts) and has_local(parts, receiver):
                return node
    return None
