"""init-not-applied: an initialisation that is written and never runs, or runs before the layers are there."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, Function, Sites
from mlcheck.lint.sites.modules import MODULE, holds_parameters, module_classes, text_of
from mlcheck.lint.words import occurrences

LOOKS_AT = "weight initialisation"
_FILLS = pattern(r"\binit\.\w+_\(|\b(?:xavier|kaiming|trunc_normal|orthogonal)\w*_\(|\.weight(?:\.data)?\.\w+_\(")
_NAMED = pattern(r"(?:^|_)init(?:ial\w*)?(?:_|$)|reset_parameters", re.IGNORECASE)
_OWN_WAYS = pattern(r"init|fill_|normal_|uniform_|zero_|copy_")
_TRAINS = (".backward(", "Trainer(", ".fit(")


def check(facts: Facts) -> Iterator[Finding]:
    sites, seen = facts.sites, 0
    trains = any(True for _ in sites.mentioning(_TRAINS))
    for file in sites.mentioning(["init"]):
        for function in file.functions:
            if _NAMED.search(function.name) and _FILLS.search(file.module.text_of(function.node)):
                seen += 1
                if trains and _is_for_modules(function) and not _is_named_elsewhere(sites, function):
                    yield Finding(
                        f"`{function.name}` initialises weights, and nothing in the project calls it: "
                        "the layers keep PyTorch's defaults",
                        function.place().location,
                        help=_how(function),
                    )
    for cls in sites.once(module_classes):
        for call in _too_early(cls):
            seen += 1
            yield call
    sites.seen[LOOKS_AT] = seen


def _how(function: Function) -> str:
    if function.cls is not None and len(function.parameters) == 1:
        return f"call `self.{function.name}()` at the end of `__init__`, or remove it"
    return f"`model.apply({function.name})`, or remove it"


def _is_for_modules(function: Function) -> bool:
    """A function of one module, for `apply`; or a method without arguments of a plain `nn.Module`."""
    if function.node.decorator_list or function.name.startswith("__"):
        return False
    if function.cls is None:
        return len(function.parameters) == 1 and "isinstance(" in function.file.module.text_of(function.node)
    return function.cls.libraries == {MODULE} and len(function.parameters) == 1


def _is_named_elsewhere(sites: Sites, function: Function) -> bool:
    """Whether its name stands anywhere but in its definition: a call, an import, a string, an heir."""
    return sites.is_named(function.name, times=2)


def _too_early(cls: Class) -> Iterator[Finding]:
    """`self.apply(init)` in `__init__`, before layers that nothing initialises afterwards."""
    init = cls.methods.get("__init__")
    if init is None or cls.libraries != {MODULE}:
        return
    body = init.node.body
    for number, line in enumerate(body):
        if not isinstance(line, ast.Expr) or not _applies(line.value, init):
            continue
        rest = body[number + 1 :]
        if any(_OWN_WAYS.search(ast.unparse(other)) or _applies_in(other, init) for other in rest):
            continue
        assert isinstance(line.value, ast.Call)
        kinds = _asked_for(init, line.value)
        later = [
            (name, at) for name, at, made in _assigned(cls, init) if at > line.lineno and _has_any(cls, made, kinds)
        ]
        if later:
            yield Finding(
                f"The weights are initialised before `self.{later[0][0]}` is there: it keeps PyTorch's default",
                cls.file.place(line, init.inner).location,
                help="initialise at the end of `__init__`",
            )


def _applies(node: ast.expr, init: Function) -> bool:
    """`self.apply(own_function)`, or `self.init_weights()` of a method that goes through `self.modules()`."""
    func = node.func if isinstance(node, ast.Call) else None
    if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name) or func.value.id != init.receiver:
        return False
    assert isinstance(node, ast.Call)
    if func.attr == "apply" and len(node.args) == 1:
        given = Call(init.file, node, init.inner).argument("fn", 0)
        named = init.file.resolve(given, init.inner)
        return isinstance(named, Function) and _fills(named)
    method = init.cls.find(func.attr) if init.cls is not None else None
    return (
        method is not None
        and _fills(method)
        and f"{method.receiver}.modules()" in method.file.module.text_of(method.node)
    )


def _fills(function: Function) -> bool:
    return _FILLS.search(function.file.module.text_of(function.node)) is not None


def _applies_in(statement: ast.stmt, init: Function) -> bool:
    return any(isinstance(node, ast.Call) and _applies(node, init) for node in walk(statement))


def _asked_for(init: Function, call: ast.Call) -> set[str]:
    """The classes that the initialisation tells apart by `isinstance`, by their last names; empty: it may be any."""
    named = init.file.resolve(call.args[0] if call.args else call.func, init.inner)
    found = set()
    for node in named.nodes if isinstance(named, Function) else ():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            found |= {ast.unparse(kind).rpartition(".")[2] for kind in kinds}
    return found


def _has_any(cls: Class, made: ast.expr, kinds: set[str]) -> bool:
    """Whether what is made is, or may hold, a layer of one of the kinds."""
    if not kinds:
        return True
    for node in walk(made):
        last = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        named = cls.file.resolve(node.func, cls.defined.inner) if isinstance(node, ast.Call) else None
        if last in kinds or (isinstance(named, Class) and any(occurrences(kind, text_of(named)) for kind in kinds)):
            return True
    return False


def _assigned(cls: Class, init: Function) -> list[tuple[str, int, ast.expr]]:
    """The layers with parameters that `__init__` makes, with their lines."""
    return [
        (name, assigned.node.lineno, assigned.value)
        for name, found in cls.attributes.items()
        for function, assigned in found
        if function is init and assigned.value is not None
        if holds_parameters(cls.file, assigned.value, assigned.context)
    ]
