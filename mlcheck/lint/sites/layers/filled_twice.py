"""Lines of an initialisation that were copied, and fill the same weights again, where others are left."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.initialising import fills
from mlcheck.lint.sites.layers.modules import module_classes
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.project import Sites


class FilledTwice(NamedTuple):
    """The second of two lines that are the same, what both fill, and a layer of its kind that nothing fills."""

    method: Function
    line: ast.Expr
    filled: str
    left: str


def filled_twice(sites: Sites) -> Iterator[FilledTwice]:
    """`init_linear(self.a)` twice, and `self.b`, made as `self.a` is, in no such line."""
    for cls in sites.once(module_classes):
        if "init" not in cls.text:
            continue
        for method in cls.methods.values():
            lines = [line for line in method.node.body if isinstance(line, ast.Expr) and _filled(method, line)]
            texts = [ast.unparse(line) for line in lines]
            for number, line in enumerate(lines):
                name = _filled(method, line)
                left = _left(cls, name) if texts.index(texts[number]) < number else ""
                if left:
                    yield FilledTwice(method, line, name, left)


def _filled(method: Function, line: ast.Expr) -> str:
    """`a` of `init_linear(self.a)` and of `nn.init.zeros_(self.a.bias)`."""
    call = line.value
    if not isinstance(call, ast.Call) or not call.args:
        return ""
    named = method.file.resolve(call.func, method.inner)
    of_library = isinstance(named, str) and named.startswith("torch.nn.init.")
    if not of_library and not (isinstance(named, Function) and fills(named)):
        return ""
    given = call.args[0]
    whole = given.value if isinstance(given, ast.Attribute) and given.attr in ("weight", "bias", "data") else given
    return own_attribute(whole, method) or own_attribute(given, method)


def _left(cls: Class, name: str) -> str:
    """Another layer of the same kind that only the forward pass, and the line that makes it, speak of."""
    made = {key: ast.unparse(sets[0][1].value) for key, sets in cls.attributes.items() if sets[0][1].value is not None}
    kind = made.get(name, "").partition("(")[0]
    kin = [key for key in made if key != name and kind and made[key].partition("(")[0] == kind]
    if "parameters()" in cls.text or "modules()" in cls.text or ".apply(" in cls.text:
        return ""
    spoken = {
        node.attr
        for method in cls.methods.values()
        if method.name != "forward"
        for node in walk(method.node)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    return next((key for key in kin if key not in spoken), "")
