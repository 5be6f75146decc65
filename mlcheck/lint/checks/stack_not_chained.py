"""stack-not-chained: each layer of a list gets the same input, and only the output of the last one is kept."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, loads, walk
from mlcheck.lint.sites import Class, Function
from mlcheck.lint.sites.layers.modules import module_classes

LOOKS_AT = "loop over layers"
WORDS = ("ModuleList",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for cls in facts.sites.once(module_classes):
        for method in cls.methods.values() if "for " in cls.text else ():
            for loop in method.all(ast.For):
                layer = _layer(cls, method, loop)
                facts.sites.seen[LOOKS_AT] += layer is not None
                if layer is not None and _drops_all_but_last(loop, layer):
                    yield Finding(
                        f"Each `{layer}` of the list gets the same input, and its output replaces the one before it: "
                        "only the last one counts, and the others get no gradient",
                        method.place(loop.body[0]).location,
                        help="hand the output of each to the next one: `x = layer(x)`",
                        related=(method.place(loop).location,),
                    )


def _layer(cls: Class, method: Function, loop: ast.For) -> str | None:
    """`block` of `for block in self.blocks` and `for i, block in enumerate(self.blocks)`, over a `ModuleList`."""
    over, target = loop.iter, loop.target
    if isinstance(over, ast.Call) and is_name(over.func, "enumerate") and len(over.args) == 1:
        over = over.args[0]
        target = target.elts[-1] if isinstance(target, ast.Tuple) else target
    if not isinstance(over, ast.Attribute) or not is_name(over.value, method.receiver) or loop.orelse:
        return None
    made = cls.attribute(over.attr)
    lists = [each for function, each in made if function.file.called(each.value, each.context) == "torch.nn.ModuleList"]
    return target.id if made and len(lists) == len(made) and isinstance(target, ast.Name) else None


def _drops_all_but_last(loop: ast.For, layer: str) -> bool:
    """Whether each turn only makes new values of what was there before the loop, and one of them by the layer."""
    made: set[str] = set()
    called = False
    for line in loop.body:
        if not isinstance(line, ast.Assign) or len(line.targets) != 1:
            return False
        target = line.targets[0]
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(part, ast.Name) for part in parts) or not isinstance(line.value, ast.Call):
            return False
        made |= {part.id for part in parts if isinstance(part, ast.Name)}
        called |= _calls(line.value, layer)
    turn = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)} - {layer}
    return called and not any(loads(line, name) for line in loop.body for name in made | turn)


def _calls(call: ast.Call, layer: str) -> bool:
    """`layer(x)` and `layer.forward(x)`."""
    func = call.func
    return is_name(func.value if isinstance(func, ast.Attribute) and func.attr == "forward" else func, layer)
