"""The texts that a variable can hold, where the program writes all of them down, and those it is compared with."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.options import is_parsed, name_of_option
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Binding, Context

_DEPTH = 4


class Compared(NamedTuple):
    """A comparison for equality or membership: the variable, the texts, and where it stands."""

    file: File
    node: ast.Compare
    context: Context
    variable: ast.Name | ast.Attribute
    texts: frozenset[str]


class Possible(NamedTuple):
    """All texts that a variable can hold, where they are written, and all that it is compared with."""

    texts: frozenset[str]
    file: File
    written: ast.AST
    context: Context
    compared: frozenset[str]


def comparisons(file: File) -> Iterator[Compared]:
    """`phase == "train"`, `phase != "train"`, `phase in ("val", "test")`."""
    for node, context in file.walk.comparisons:
        match node:
            case ast.Compare(left=ast.Name() | ast.Attribute() as variable, ops=[op], comparators=[other]):
                texts = _texts(other) if isinstance(op, ast.In | ast.NotIn) else _texts_of([other])
                if texts and isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                    yield Compared(file, node, context, variable, texts)


def possible(asked: Compared) -> Possible | None:
    """What the compared variable can hold; None where that is not known."""
    file, variable = asked.file, asked.variable
    if isinstance(variable, ast.Attribute):
        return _of_option(asked, variable)
    bindings = file.bindings(variable.id, asked.context)
    if len(bindings) != 1 or not isinstance(bindings[0].node, ast.For | ast.arg):
        return None
    if isinstance(bindings[0].node, ast.For):
        return _of_loop(asked, variable.id, bindings[0])
    return _of_parameter(asked, variable.id) if bindings[0].kind == "param" else None


def _of_loop(asked: Compared, name: str, binding: Binding) -> Possible | None:
    """`for phase in ["train", "val"]`."""
    loop = binding.node
    given = _gone_over(loop, name) if isinstance(loop, ast.For) else None
    if not isinstance(loop, ast.For) or given is None:
        return None
    if isinstance(given, ast.Name) and asked.file.is_mutated(given.id, binding.context):
        return None
    if asked.node not in walk(loop) or (over := _written(Origin(asked.file, given, binding.context))) is None:
        return None
    texts, held = _texts(over.node), _compared_with(asked.file, name, walk(loop))
    return Possible(texts, over.file, over.node, over.context, held) if texts else None


def _written(given: Origin, depth: int = _DEPTH) -> Origin | None:
    """The list or dictionary that is written out, which a loop goes over: by the keys that it is made for, perhaps.

    `loaders` of `loaders = {name: DataLoader(sets[name]) for name in sets}`, also where a function returns it.
    """
    found = origins(given.file, given.node, given.context)
    if len(found) != 1 or depth == 0:
        return None
    made = found[0]
    if isinstance(made.node, ast.Name) and made.node is not given.node:
        return None
    match made.node:
        case ast.DictComp(key=ast.Name(id=key), generators=[ast.comprehension(ifs=[]) as turn]):
            over = _gone_over(turn, key)
            return _written(made._replace(node=over), depth - 1) if over is not None else None
    names = made.file.names_given(made.node)
    changed = any(made.file.is_mutated(name, made.context) for name in names)
    return made if _texts(made.node) and not changed else None


def _gone_over(loop: ast.For | ast.comprehension, name: str) -> ast.expr | None:
    """`names` of `for phase in names`, and `loaders` of `for phase, loader in loaders.items()`."""
    match loop.target, loop.iter:
        case ast.Name(id=bound), ast.Call(func=ast.Attribute(value=over, attr="keys"), args=[]) if bound == name:
            return over
        case ast.Name(id=bound), over if bound == name:
            return over
        case ast.Tuple(elts=[ast.Name(id=bound), _]), ast.Call(func=ast.Attribute(value=over, attr="items")):
            return over if bound == name else None
    return None


def _of_parameter(asked: Compared, name: str) -> Possible | None:
    """What all calls that can be seen give, where it is several texts and none of those it is compared with."""
    function = asked.file.function_around(asked.context)
    if function is None or name not in function.parameters:
        return None
    calls = asked.file.sites.once_of(_calls, function)
    position = list(function.parameters).index(name) - bool(function.receiver)
    given = [call.constant(name, position, None) for call in calls]
    texts = frozenset(text for text in given if isinstance(text, str))
    if len(texts) < 2 or not all(isinstance(text, str) for text in given):
        return None
    held = _compared_with(asked.file, name, function.nodes)
    return None if texts & held else Possible(texts, calls[0].file, calls[0].node, calls[0].context, held)


def _calls(function: Function) -> list[Call]:
    return function.file.sites.calls_of(function) or []


def _of_option(asked: Compared, variable: ast.Attribute) -> Possible | None:
    """The `choices` of the command line's only option of that name."""
    option = asked.file.sites.once(_options).get(variable.attr)
    parsed = origins(asked.file, variable.value, asked.context) if option is not None else []
    if option is None or not parsed or not all(is_parsed(origin.node) for origin in parsed):
        return None
    choices = option.argument("choices")
    texts = _texts(option.file.value(choices, option.context)[0]) if isinstance(choices, ast.expr) else frozenset()
    held = frozenset(asked.file.sites.once(_compared_by_name).get(variable.attr, ()))
    return Possible(texts, option.file, option.node, option.context, held) if texts else None


def _compared_by_name(sites: Sites) -> dict[str, set[str]]:
    """All texts that variables and attributes of a name are compared with, wherever that is."""
    found: dict[str, set[str]] = {}
    for file in sites.files.values():
        for each in comparisons(file):
            found.setdefault(last_name(each.variable), set()).update(each.texts)
    return found


def _options(sites: Sites) -> dict[str, Call | None]:
    """The options of all command lines by their names; None for a name that several have, or that is set by hand."""
    found: dict[str, Call | None] = {}
    for file in sites.mentioning(["add_argument"], tests=True):
        for call in file.calls("add_argument"):
            name = name_of_option(call)
            found[name] = None if name in found else call
    set_by_hand = {each.target.attr for file in sites.files.values() for each in file.walk.attributes}
    return {name: None if name in set_by_hand else call for name, call in found.items()}


def _compared_with(file: File, name: str, within: Iterable[ast.AST]) -> frozenset[str]:
    inside = {id(node) for node in within if isinstance(node, ast.Compare)}
    return frozenset(
        text
        for each in comparisons(file)
        if id(each.node) in inside and is_name(each.variable, name)
        for text in each.texts
    )


def _texts(node: ast.expr) -> frozenset[str]:
    """The items of a list that is written out and holds nothing but texts; the keys of such a dictionary."""
    if isinstance(node, ast.Dict):
        return _texts_of(node.keys)
    return _texts_of(node.elts) if isinstance(node, ast.List | ast.Tuple | ast.Set) else frozenset()


def _texts_of(nodes: Iterable[ast.expr | None]) -> frozenset[str]:
    held = [node.value if isinstance(node, ast.Constant) else None for node in nodes]
    return frozenset(text for text in held if isinstance(text, str)) if all(map(_is_text, held)) else frozenset()


def _is_text(value: object) -> bool:
    return isinstance(value, str)
