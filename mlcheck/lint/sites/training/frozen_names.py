"""Parameters that are to be frozen by their names, where the model has none of such a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Place
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.modules import MODULE
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_BY_OTHER_MEANS = pattern(r"setattr|add_module|register_|ModuleDict|OrderedDict|__dict__|exec\(")
_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel")


def named_nowhere(sites: Sites) -> Iterator[tuple[Place, str, str]]:
    """`if name.startswith("encoder."): p.requires_grad = False` of a model without an `encoder`.

    The test, the beginning of the name, and the class of the model, or of the wrapper around it.
    """
    for file in sites.mentioning(["named_parameters()"]):
        for context in _settings(file) if ".startswith(" in file.text else ():
            guard, loop = _around(context)
            if guard is None or loop is None or not isinstance(loop.iter, ast.Call):
                continue
            words = _asked(guard.test, loop)
            owner = loop.iter.func.value if isinstance(loop.iter.func, ast.Attribute) else None
            made = origins(file, owner, context) if words and owner is not None else []
            holders = [_without(origin, words) for origin in made]
            if made and all(holders):
                yield file.place(guard.test, context), words[0], holders[0]


def _settings(file: File) -> Iterator[Context]:
    """Where `p.requires_grad = ...` and `p.requires_grad_(...)` stand."""
    yield from (each.context for each in file.walk.attributes if each.target.attr == "requires_grad")
    yield from (call.context for call in file.calls("requires_grad_"))


def _around(context: Context) -> tuple[ast.If | None, ast.For | None]:
    """`if` and loop around, where that is a loop over names and parameters."""
    guard = context.node
    loop = next((outer.node for outer in context.outwards() if outer.kind == "loop"), None)
    if not isinstance(guard, ast.If) or not isinstance(loop, ast.For):
        return None, None
    if guard.orelse or context.arm != "body" or not ast.unparse(loop.iter).endswith(".named_parameters()"):
        return None, None
    return guard, loop


def _asked(test: ast.expr, loop: ast.For) -> list[str]:
    """The words of `name.startswith(("stem.", "layer1."))`, of the name that the loop gives."""
    name = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2 else None
    match test, name:
        case (
            ast.Call(func=ast.Attribute(value=ast.Name(id=asked), attr="startswith"), args=[words]),
            ast.Name(id=given),
        ) if asked == given:
            parts = words.elts if isinstance(words, ast.Tuple) else [words]
            known = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            return known if len(known) == len(parts) else []
    return []


def _without(model: Origin, words: list[str]) -> str:
    """The class of the model, where none of its parameters can begin so; "" where one may."""
    if model.item >= 0 or not isinstance(model.node, ast.Call):
        return ""
    named = model.file.resolve(model.node.func, model.context)
    if named in _WRAPPERS:
        return "" if any(word.startswith("mod") for word in words) else str(named).rpartition(".")[2]
    if not isinstance(named, Class) or named.libraries != {MODULE} or _BY_OTHER_MEANS.search(named.text):
        return ""
    if any(_BY_OTHER_MEANS.search(cls.text) for cls in named.line):
        return ""
    return "" if any(_may_begin(model.file.sites, word) for word in words) else named.name


def _may_begin(sites: Sites, word: str) -> bool:
    """Whether anything in the program is put under such a name, in whatever class or object."""
    first, dot, _ = word.partition(".")
    names = {each.target.attr for file in sites.mentioning([first], tests=True) for each in file.walk.attributes}
    return first in names if dot else any(name.startswith(first) for name in names)
