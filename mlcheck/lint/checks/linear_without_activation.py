"""linear-without-activation: two linear layers with nothing between them."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, reads_of, walk
from mlcheck.lint.sites import Call, Class, Context, File, Function
from mlcheck.lint.sites.layers.linear_stacks import linear_stacks
from mlcheck.lint.sites.layers.modules import module_classes, text_of
from mlcheck.lint.words import occurrences

LOOKS_AT = "linear layer"
WORDS = ("Linear",)
_LINEAR, _DROPOUT = "torch.nn.Linear", "torch.nn.functional.dropout"
_FACTORS = pattern(r"proj|embed|adapt|lora|latent", re.IGNORECASE)
_MADE_AND_CALLED = 2


def check(facts: Facts) -> Iterator[Finding]:
    layers = list(facts.sites.calls(_LINEAR))
    facts.sites.seen["linear layer"] = len(layers)
    if not layers:
        return
    for call in facts.sites.calls("torch.nn.Sequential"):
        yield from _in_row(call)
    for stack in linear_stacks(facts.sites):
        yield Finding(
            "These linear layers follow each other with nothing between them: together they compute no more than one",
            stack.place.location,
            help="apply an activation after each",
            related=(stack.made.location,),
        )
    for cls in facts.sites.once(module_classes):
        forward = cls.methods.get("forward")
        if forward is not None:
            yield from _in_forward(cls, forward)


def _in_row(call: Call) -> Iterator[Finding]:
    """Two neighbours among the arguments of `nn.Sequential`."""
    if any(isinstance(arg, ast.Starred) for arg in call.node.args):
        return
    before: ast.Call | None = None
    for argument in call.node.args:
        node, context = call.file.value(argument, call.context)
        name = call.file.called(node, context)
        if name == _LINEAR and isinstance(node, ast.Call):
            if before is not None and _is_wasteful(call.file, before, node, context):
                yield _finding(call.file, argument, call.context, before)
            before = node
        elif name != "torch.nn.Identity":
            before = None


def _in_forward(cls: Class, forward: Function) -> Iterator[Finding]:
    """`self.two(self.one(x))`, and `x = self.one(x)` followed by `x = self.two(x)`."""
    for node in forward.nodes:
        if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
            yield from _pair(cls, forward, node.args[0], node)
    for number, first in enumerate(forward.node.body):
        target = first.targets[0] if isinstance(first, ast.Assign) else None
        if (
            not isinstance(first, ast.Assign)
            or not isinstance(first.value, ast.Call)
            or not isinstance(target, ast.Name)
        ):
            continue
        rest = forward.node.body[number + 1 :]
        second = next((line for line in rest if not _only_drops(cls, forward, line, target.id)), None)
        if isinstance(second, ast.Assign | ast.Return) and len(reads_of(walk(second), target.id)) == 1:
            for two in walk(second):
                if isinstance(two, ast.Call) and len(two.args) == 1 and is_name(two.args[0], target.id):
                    if _is_last(second, target.id, forward) and _layer(cls, forward, first.value) is not None:
                        yield from _pair(cls, forward, first.value, two)


def _only_drops(cls: Class, forward: Function, line: ast.stmt, name: str) -> bool:
    """`x = self.dropout(x)` or `F.dropout(x, 0.5)`, which changes nothing about what both layers are together."""
    match line:
        case ast.Assign(
            targets=[ast.Name(id=target)],
            value=ast.Call(func=ast.Attribute(value=ast.Name(), attr=layer), args=[ast.Name(id=given), *_]),
        ) if target == given == name:
            made = [function.file.called(each.value, each.context) for function, each in cls.attribute(layer)]
            of_torch = cls.file.called(line.value, forward.inner) == _DROPOUT
            return of_torch or (bool(made) and all(called.startswith("torch.nn.Dropout") for called in made))
    return False


def _is_last(second: ast.Assign | ast.Return, name: str, forward: Function) -> bool:
    """Whether nothing else reads what the first layer made."""
    if isinstance(second, ast.Return) or is_name(second.targets[0], name):
        return True
    return len([node for node in reads_of(forward.nodes, name) if node.lineno >= second.lineno]) == 1


def _pair(cls: Class, forward: Function, one: ast.Call, two: ast.Call) -> Iterator[Finding]:
    before, after = _layer(cls, forward, one), _layer(cls, forward, two)
    if before is None or after is None or before[0] is after[0]:
        return
    if any(_has_other_uses(cls, layer) for layer in (one.func, two.func)):
        return
    if _is_wasteful(before[1], before[0], after[0], before[2]):
        yield _finding(cls.file, two, forward.inner, before[0])


def _has_other_uses(cls: Class, layer: ast.expr) -> bool:
    """Whether a layer is called, or its weight read, at more than one place: it has a meaning of its own then."""
    if not isinstance(layer, ast.Attribute) or not isinstance(layer.value, ast.Name):
        return False
    return occurrences(f"{layer.value.id}.{layer.attr}", text_of(cls)) > _MADE_AND_CALLED


def _layer(cls: Class, forward: Function, call: ast.Call) -> tuple[ast.Call, File, Context] | None:
    """The `nn.Linear(...)` behind `self.name(...)`, where the attribute is assigned once."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
        return None
    if func.value.id != forward.receiver:
        return None
    found = cls.attribute(func.attr)
    if len(found) != 1 or not isinstance(found[0][1].value, ast.Call):
        return None
    function, assigned = found[0]
    assert isinstance(assigned.value, ast.Call)
    if function.file.called(assigned.value, assigned.context) != _LINEAR:
        return None
    return assigned.value, function.file, assigned.context


def _is_wasteful(file: File, one: ast.Call, two: ast.Call, context: Context) -> bool:
    """Whether the middle is certainly not narrower than both ends, as in a factorised matrix.

    A projection without a bias before another layer is a factor on purpose.
    """
    if any(keyword.arg == "bias" and file.constant(keyword.value, context) is False for keyword in one.keywords):
        return False
    if any(_FACTORS.search(name) for layer in (one, two) for name in file.names_given(layer)):
        return False
    sizes = [_size(file, one, 0, context), _size(file, one, 1, context), _size(file, two, 1, context)]
    start, middle, end = (size if isinstance(size, int) else None for size in sizes)
    if middle is not None:
        return (start is not None and middle >= start) or (end is not None and middle >= end)
    first, second, last = (_written(one, 0), _written(one, 1), _written(two, 1))
    if re.fullmatch(rf"[2-9] \* {re.escape(first)}|{re.escape(first)} \* [2-9]", second):
        return True
    return bool(second) and (second in (first, last) or ("hid" in second.lower() and "hid" not in first.lower()))


def _size(file: File, layer: ast.Call, position: int, context: Context) -> object:
    given = _features(layer, position)
    function = file.function_around(context)
    if isinstance(given, ast.Name) and function is not None and given.id in function.parameters:
        given = function.parameters[given.id]  # its default
    return file.constant(given, context)


def _written(layer: ast.Call, position: int) -> str:
    given = _features(layer, position)
    return ast.unparse(given) if given is not None else ""


def _features(layer: ast.Call, position: int) -> ast.expr | None:
    """What is given for `in_features` (0) or `out_features` (1)."""
    name = ("in_features", "out_features")[position]
    given = next((keyword.value for keyword in layer.keywords if keyword.arg == name), None)
    return layer.args[position] if given is None and position < len(layer.args) else given


def _finding(file: File, node: ast.AST, context: Context, before: ast.Call) -> Finding:
    return Finding(
        "This linear layer follows another with nothing between them: together they are equivalent to one linear layer",
        file.place(node, context).location,
        help="put an activation between them, or leave one out",
    )
