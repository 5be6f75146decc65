"""stack-not-chained: each layer of a list gets the same input, and only the output of the last one is kept."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, loads, walk
from mlcheck.lint.sites import Class, Function
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.layers.modules import module_classes

LOOKS_AT = "loop over layers"
WORDS = ("ModuleList",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for cls in facts.sites.once(module_classes):
        for method in cls.methods.values() if "for " in cls.text else ():
            for loop in method.all(ast.For):
                layers = _layers(cls, method, loop)
                facts.sites.seen[LOOKS_AT] += bool(layers)
                if layers and _drops_all_but_last(loop, layers):
                    yield Finding(
                        f"Each `{layers[0]}` of the list gets the same input, and its output replaces that before it: "
                        "only the last one counts, and the others get no gradient",
                        method.place(loop.body[0]).location,
                        help="hand the output of each to the next one: `x = layer(x)`",
                        related=(method.place(loop).location,),
                    )


def _layers(cls: Class, method: Function, loop: ast.For) -> list[str]:
    """`block` of `for block in self.blocks`, over a `ModuleList`; also through `enumerate` and `zip`, or by its number.

    None where the loop brings anything else in each turn.
    """
    turn = iteration_of(loop)
    if loop.orelse or (turn.number is not None and _is_read(loop, turn.number)):
        return []
    if isinstance(turn.over, ast.Call) and is_name(turn.over.func, "range") and isinstance(turn.brought, ast.Name):
        return _by_number(cls, method, loop, turn.brought.id)
    zipped = isinstance(turn.over, ast.Call) and is_name(turn.over.func, "zip") and isinstance(turn.brought, ast.Tuple)
    overs = turn.over.args if isinstance(turn.over, ast.Call) and zipped else [turn.over]
    names = turn.brought.elts if isinstance(turn.brought, ast.Tuple) and zipped else [turn.brought]
    found = [name.id for name, over in zip(names, overs, strict=False) if isinstance(name, ast.Name)]
    known = len(found) == len(overs) == len(names) and all(_is_stack(cls, method, over) for over in overs)
    return found if known else []


def _by_number(cls: Class, method: Function, loop: ast.For, number: str) -> list[str]:
    """`self.blocks[i]`, where the number does nothing but choose the layers."""
    chosen = [node for line in loop.body for node in walk(line) if isinstance(node, ast.Subscript)]
    chosen = [node for node in chosen if is_name(node.slice, number) and _is_stack(cls, method, node.value)]
    reads = [node for line in loop.body for node in walk(line) if is_name(node, number)]
    return sorted({ast.unparse(node) for node in chosen}) if len(reads) == len(chosen) else []


def _is_read(loop: ast.For, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and any(loads(line, node.id) for line in loop.body)


def _is_stack(cls: Class, method: Function, over: ast.expr) -> bool:
    """`self.blocks`, which is a `ModuleList`."""
    if not isinstance(over, ast.Attribute) or not is_name(over.value, method.receiver):
        return False
    made = cls.attribute(over.attr)
    lists = [each for function, each in made if function.file.called(each.value, each.context) == "torch.nn.ModuleList"]
    return bool(made) and len(lists) == len(made)


def _drops_all_but_last(loop: ast.For, layers: list[str]) -> bool:
    """Whether each turn only makes new values of what was there before the loop, and of what it has made by then."""
    made: set[str] = set()
    called = False
    for line in loop.body:
        if not isinstance(line, ast.Assign) or len(line.targets) != 1:
            return False
        target = line.targets[0]
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(part, ast.Name) for part in parts):
            return False
        later = {part.id for rest in loop.body for part in walk(rest) if _is_stored(part)} - made
        if any(loads(line, name) for name in later):
            return False
        made |= {part.id for part in parts if isinstance(part, ast.Name)}
        called |= any(_calls(node, layers) for node in walk(line.value))
    return called


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _calls(node: ast.AST, layers: list[str]) -> bool:
    """`layer(x)` and `layer.forward(x)`."""
    func = node.func if isinstance(node, ast.Call) else None
    called = func.value if isinstance(func, ast.Attribute) and func.attr == "forward" else func
    return called is not None and ast.unparse(called) in layers
