"""batch-mixing: a forward pass reduces over the samples of its batch, and goes on with that for each of them."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name
from mlcheck.lint.sites import Call, Class, Function
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import holds_parameters, module_classes, text_of

LOOKS_AT = "forward pass"
_REDUCTIONS = ("mean", "sum", "amax", "std", "var")
_KEEPS = ("view", "reshape", "flatten", "unsqueeze", "squeeze", "detach")
_BATCHED = (
    "Flatten()",
    "flatten(1)",
    "start_dim=1",
    "BatchNorm",
    "Conv2d(",
    "batch_first=True",
    ".size(0)",
    ".shape[0]",
)
_BAGS = ("squeeze(0)", "squeeze(dim=0)", "[0]")
_WHOLE = ("norm", "sum", "std")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for cls in facts.sites.once(module_classes):
        forward = cls.methods.get("forward")
        if forward is None or forward.node.decorator_list:
            continue
        facts.sites.seen[LOOKS_AT] += 1
        for call in forward.all(ast.Call):
            yield from _learned_from(forward, call)
        quotients = [node for node in forward.all(ast.BinOp) if isinstance(node.op, ast.Div)]
        if quotients and any(word in text_of(cls) for word in _BATCHED):
            for quotient in quotients:
                yield from _scaled(cls, forward, quotient)


def _learned_from(forward: Function, node: ast.Call) -> Iterator[Finding]:
    """`self.fc(x.mean(dim=(0, 2, 3)))`: a layer of the model is asked about the whole batch of pictures at once."""
    name = own_attribute(node.func, forward)
    if not name or len(node.args) != 1 or not _learns(forward, name):
        return
    made, context = source(forward.file, before_methods(node.args[0], _KEEPS), forward.inner)
    made, context = source(forward.file, before_methods(made, _KEEPS), context)
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or made.func.attr not in _REDUCTIONS:
        return
    of_function = forward.file.called(made, context).startswith("torch.")
    call = Call(forward.file, made, context)
    reduced = call.argument("input", 0) if of_function else made.func.value
    if not isinstance(reduced, ast.Name) or not _goes_on(forward, reduced.id):
        return
    given = call.argument("dim", 1 if of_function else 0)
    dims = [forward.file.constant(part, context) for part in given.elts] if isinstance(given, ast.Tuple) else []
    pictures = any(True for _ in forward.file.sites.mentioning(["Conv2d(", "Conv3d("]))
    if dims in ([0, 2, 3], [0, 2, 3, 4]) and pictures:
        yield Finding(
            f"This goes over the samples of the batch too, and `{name}` gets one row for all of them",
            forward.place(made).location,
            help="leave out dimension 0: each sample is reduced by itself",
            related=(forward.place(node).location,),
        )


def _goes_on(forward: Function, name: str) -> bool:
    """Whether each sample meets what was made of all: a bag of instances (multiple-instance learning) is one sample."""
    text = forward.text
    if any(word in text for word in _BAGS):
        return False
    sides = (side for node in forward.nodes if isinstance(node, ast.BinOp) for side in (node.left, node.right))
    return any(is_name(side, name) for side in sides)


def _learns(forward: Function, name: str) -> bool:
    sets = forward.cls.attribute(name) if forward.cls is not None else []
    return bool(sets) and all(
        assigned.value is not None and holds_parameters(where.file, assigned.value, assigned.context)
        for where, assigned in sets
    )


def _scaled(cls: Class, forward: Function, node: ast.BinOp) -> Iterator[Finding]:
    """`z / z.norm()` of what a layer makes of the batch: one number for all samples."""
    divisor = (
        node.right.left if isinstance(node.right, ast.BinOp) and isinstance(node.right.op, ast.Add) else node.right
    )
    match divisor:
        case ast.Call(func=ast.Attribute(value=ast.Name() as whole, attr=how), args=[], keywords=[]) if how in _WHOLE:
            pass
        case _:
            return
    shifted = node.left.left if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Sub) else node.left
    if not isinstance(shifted, ast.Name) or shifted.id != whole.id:
        return
    made, _ = source(forward.file, whole, forward.inner)
    name = own_attribute(made.func, forward) if isinstance(made, ast.Call) else ""
    if name and _learns(forward, name) and isinstance(made, ast.Call) and len(made.args) == 1:
        yield Finding(
            f"`{ast.unparse(divisor)}` is one number for all samples of the batch: each is scaled by the others",
            cls.file.place(node, forward.inner).location,
            help=f"`{whole.id}.{how}(dim=-1, keepdim=True)`, or the dimensions of one sample",
        )
