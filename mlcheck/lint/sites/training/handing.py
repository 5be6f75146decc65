"""Models that are handed to a function or an object which trains them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import is_name, stores_of, walk
from mlcheck.lint.sites.model import Call, Class, Function


def handed_over(wrap: Call) -> Iterator[tuple[Call, str]]:
    """`ddp = DistributedDataParallel(net)`, and then `train(net)`: the calls, and the name of the model inside."""
    names = wrap.file.names_given(wrap.node)
    if not names or wrap.function is None:
        return
    for inner, since in _names_inside(wrap, names):
        for node in wrap.function.nodes:
            if not isinstance(node, ast.Call) or node.lineno <= since:
                continue
            call = Call(wrap.file, node, wrap.context)
            given = {part.id for part in walk(node) if isinstance(part, ast.Name)}
            parameter = _parameter(call, inner)
            if parameter and given.isdisjoint(names) and _trains(call, parameter):
                yield call, inner


def _names_inside(wrap: Call, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """The variables that hold the model inside for good, and since which line.

    What the wrapper was given, where that has a name of its own, and `bare` of `bare = ddp.module`.
    """
    nodes = wrap.function.nodes if wrap.function is not None else []
    given, taken = wrap.argument("module", 0), dict[str, int]()
    if isinstance(given, ast.Name) and given.id not in names:
        taken[given.id] = wrap.node.lineno
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(value=ast.Name(id=owner), attr="module")):
                if owner in names and node.lineno > wrap.node.lineno:
                    taken[name] = node.lineno
    for name, since in taken.items():
        if all(store.lineno <= since for store in stores_of(nodes, name)):
            yield name, since


def _called(call: Call) -> Function | None:
    """The function of the project that is called; of a class its constructor."""
    named = call.file.resolve(call.node.func, call.context)
    if isinstance(named, Class):
        return named.find("__init__")
    return named if isinstance(named, Function) and not named.node.decorator_list else None


def _parameter(call: Call, name: str) -> str:
    """The parameter that gets the variable as it is."""
    function = _called(call)
    own = list(function.parameters)[1 if function.receiver else 0 :] if function is not None else []
    for parameter, argument in zip(own, call.node.args, strict=False):
        if is_name(argument, name):
            return parameter
    return next(
        (word.arg for word in call.node.keywords if word.arg in own and is_name(word.value, name)),
        "",
    )


def _trains(call: Call, parameter: str) -> bool:
    """Whether what is called runs the model and a backward pass, and wraps nothing itself."""
    function = _called(call)
    if function is None:
        return False
    if function.name != "__init__" or function.cls is None:
        return _runs(function.nodes, parameter)
    kept = [
        name
        for name, sets in function.cls.attributes.items()
        if len(sets) == 1 and isinstance(sets[0][1].value, ast.Name) and sets[0][1].value.id == parameter
    ]
    return any(_runs(walk(function.cls.node), f"{function.receiver}.{name}") for name in kept)


def _runs(nodes: list[ast.AST], model: str) -> bool:
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    wraps = any(name.rpartition(".")[2] in ("DistributedDataParallel", "DDP") for name in called)
    return model in called and any(name.endswith(".backward") for name in called) and not wraps
