"""Where something is computed without gradients: as its words tell, or as the interpreter saw it run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Forward
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.values import Object

_MANAGERS = ("no_grad", "inference_mode")
_GRADIENTS = pattern(r"\bautograd\.grad\(|(?<![\w.])grad\(|\.retain_grad\(")


def evaluating_files(facts: Facts) -> Iterator[File]:
    """Those with `no_grad`, and those with a forward pass that ran while gradients were switched off."""
    seen = {forward.place.path for forward in facts.forwards if forward.grad.kind == "off"}
    for file in facts.sites.mentioning(["for "]):
        if file.path in seen or any(word in file.text for word in _MANAGERS):
            yield file


def quiet_calls(facts: Facts) -> frozenset[ast.AST]:
    """The forward passes that ran with gradients switched off, and never with them."""
    calls = {forward.place.node for forward in facts.forwards if forward.grad.kind == "off"}
    return frozenset(calls - {forward.place.node for forward in facts.forwards if forward.grad.kind != "off"})


def blocks_without(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """What stands under `with torch.no_grad():`."""
    for node in nodes:
        if isinstance(node, ast.With) and switches_off(node):
            yield from walk(node)


def switches_off(block: ast.With) -> bool:
    items = [item.context_expr for item in block.items]
    return any(
        isinstance(item, ast.Call) and (last_name(item.func) in _MANAGERS or _is_set_off(item)) for item in items
    )


def _is_set_off(call: ast.Call) -> bool:
    """`set_grad_enabled(False)`."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    off = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False
    return off and last_name(call.func) == "set_grad_enabled"


def stops_by_itself(facts: Facts, forward: Forward) -> bool:
    """`model.generate(prompt)`, a method of the project that switches gradients off, or returns what one gives.

    Or what such a function of the project gives.
    """
    cls = forward.module.cls if isinstance(forward.module, Object) else None
    func = forward.place.node.func if isinstance(forward.place.node, ast.Call) else None
    if cls is None and isinstance(func, ast.Attribute):
        return _is_switched_off(facts, func.attr)
    todo, seen = [last_name(func)], set[str]()
    while todo and cls is not None:
        seen.add(name := todo.pop())
        method = cls.find(name)
        for node in walk(method.node) if method is not None else ():
            if last_name(node) in _MANAGERS:
                return True
            given = node.value if isinstance(node, ast.Return) else None
            called = given.func if isinstance(given, ast.Call) else None
            part = isinstance(called, ast.Attribute) and not is_name(called.value, "self")
            if (part or isinstance(called, ast.Name)) and _is_switched_off(facts, last_name(called)):
                return True
            if isinstance(given, ast.Call) and ast.unparse(given.func).removeprefix("self.") not in seen:
                todo.append(ast.unparse(given.func).removeprefix("self."))
    return False


def asks_for_gradients(facts: Facts, forward: Forward) -> bool:
    """Whether the model asks for gradients itself, as forces are those of an energy, or an object that calls it."""
    cls, file = forward.module.cls if isinstance(forward.module, Object) else None, facts.sites.at(forward.place.path)
    texts = [info.module.text_of(info.node) for info in cls.mro] if cls is not None else []
    around = [each.cls for each in file.functions if each.name in forward.functions] if file is not None else []
    texts += [each.text for each in dict.fromkeys(around) if each is not None]
    return any(_GRADIENTS.search(text) for text in texts)


def _is_switched_off(facts: Facts, name: str, seen: tuple[str, ...] = ()) -> bool:
    """Whether a function or method of that name in the project switches gradients off, or returns what one gives."""
    files = facts.sites.mentioning([f"def {name}("])
    functions = [each for file in files for each in file.functions if each.name == name]
    if any(word in each.text for each in functions for word in _MANAGERS):
        return True
    returned = [line.value for each in functions for line in each.all(ast.Return)]
    called = {last_name(value.func) for value in returned if isinstance(value, ast.Call)} - {name, "", *seen}
    return any(_is_switched_off(facts, other, (*seen, name)) for other in sorted(called))
