"""init-not-applied: an initialisation that is written and never runs, or runs before the layers are there."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_attribute, is_name, last_name, walk
from mlcheck.lint.sites import Class, Function, Sites
from mlcheck.lint.sites.heirs import heirs
from mlcheck.lint.sites.layers.class_names import never_named
from mlcheck.lint.sites.layers.filled_alone import filled_alone
from mlcheck.lint.sites.layers.filled_twice import filled_twice
from mlcheck.lint.sites.layers.initialising import FILLS, applies, asked_for, has_any
from mlcheck.lint.sites.layers.modules import MODULE, holds_parameters, module_classes
from mlcheck.lint.sites.layers.other_loops import filled_in_other_loops
from mlcheck.lint.sites.layers.unfilled import unfilled

LOOKS_AT = "weight initialisation"
_NAMED = pattern(r"(?:^|_)init(?:ial\w*)?(?:_|$)|reset_parameters|(?:create|set|fill)_weights?$", re.IGNORECASE)
_OWN_WAYS = pattern(r"init|fill_|normal_|uniform_|zero_|copy_")
_TRAINS = (".backward(", "Trainer(", ".fit(")


def check(facts: Facts) -> Iterator[Finding]:
    sites, seen = facts.sites, 0
    trains = any(True for _ in sites.mentioning(_TRAINS))
    for file in sites.mentioning(["init"]):
        for function in file.functions:
            if function.name != "__init__" and _NAMED.search(function.name) and FILLS.search(function.text):
                seen += 1
                if not trains or not _is_for_modules(function) or _is_named_elsewhere(sites, function):
                    continue
                if file.function_around(function.defined.context) is not None:
                    continue  # a part of another, which tells of itself
                if not _is_one_of_several(sites, function) and not _is_switched_off(function):
                    yield Finding(
                        f"`{function.name}` initialises weights, and nothing in the project calls it: "
                        "the layers keep PyTorch's defaults",
                        function.place().location,
                        help=_how(function),
                    )
    yield from _asked_for_one(sites)
    for alone in filled_alone(sites):
        yield Finding(
            f"`{alone.init.name}` asks what kind of layer it is given, and a `{alone.model.name}` is none of those: "
            "nothing is initialised",
            alone.call.place.location,
            help=f"`{ast.unparse(alone.call.node.args[0])}.apply({alone.init.name})`",
        )
    for function, node, layer in never_named(sites):
        yield Finding(
            f"No layer has this name, a class is called `{layer}`: these weights keep PyTorch's defaults",
            function.place(node).location,
            help=f"`isinstance({list(function.parameters)[-1]}, nn.{layer})`, or the name as it is written",
        )
    for other in filled_in_other_loops(sites):
        yield Finding(
            f"This fills `{other.read}`, which the loop before went over, and nothing reads `{other.own}`: "
            "what this loop goes over keeps its values",
            other.function.place(other.call).location,
            help=f"fill `{other.own}`",
        )
    for twice in filled_twice(sites):
        yield Finding(
            f"This line fills `self.{twice.filled}` again, and `self.{twice.left}` keeps PyTorch's default",
            twice.method.place(twice.line).location,
            help=f"fill `self.{twice.left}`",
        )
    for name, beside, place in unfilled(sites):
        yield Finding(
            f"`self.{name}` is made of memory as it is, and nothing fills it"
            + (f", as `self.{beside}` is filled" if beside else ""),
            place.location,
            help=f"fill `self.{name}` where `self.{beside}` is filled" if beside else f"`xavier_uniform_(self.{name})`",
        )
    for cls in sites.once(module_classes):
        for call in _too_early(cls):
            seen += 1
            yield call
    sites.seen[LOOKS_AT] = seen


def _is_switched_off(function: Function) -> bool:
    """Whether a comment of its file is a call of it: `# self.init_weights()` was somebody's decision."""
    return re.search(rf"^[ \t]*#.*\b{function.name}\b", function.file.module.source.text, re.MULTILINE) is not None


def _asked_for_one(sites: Sites) -> Iterator[Finding]:
    """`isinstance(module, nn.Conv2d or nn.Linear)`, which asks for the first alone: a class is true."""
    for file in sites.mentioning(["isinstance("]):
        for call in file.calls("isinstance"):
            kinds = call.node.args[1] if len(call.node.args) == 2 else None
            if not isinstance(kinds, ast.BoolOp) or not isinstance(kinds.op, ast.Or):
                continue
            names = [file.resolve(kind, call.context) for kind in kinds.values]
            if all(isinstance(name, str) and name.startswith("torch.nn.") for name in names):
                yield Finding(
                    f"`{ast.unparse(kinds)}` is `{ast.unparse(kinds.values[0])}`: other layers are left out",
                    call.place.location,
                    help=f"`({', '.join(map(ast.unparse, kinds.values))})`",
                )


def _how(function: Function) -> str:
    if function.cls is not None:
        asks = "isinstance(" in function.text and len(function.parameters) > 1
        call = f"self.apply(self.{function.name})" if asks else f"self.{function.name}()"
        return f"call `{call}` at the end of `__init__`, or remove it"
    return f"`model.apply({function.name})`, or remove it"


def _is_for_modules(function: Function) -> bool:
    """A function of one module, for `apply`; or a method of a plain `nn.Module`, for that or without arguments."""
    if function.node.decorator_list or function.name.startswith("__"):
        return False
    required = [name for name, default in function.parameters.items() if default is None and name != function.receiver]
    asks = "isinstance(" in function.text
    if function.cls is None:
        return len(function.parameters) == 1 and asks
    takes = len(function.parameters) > 1
    if function.cls.libraries != {MODULE} or (takes and _is_initialised_otherwise(function.cls)):
        return False
    if _is_of_missing_layers(function, function.cls) or _fills_what_is_filled(function, function.cls):
        return False
    return not required or (len(required) == 1 and asks)


def _is_of_missing_layers(function: Function, cls: Class) -> bool:
    """Whether it names a part of its object that no class of the line has: what is left of an older network."""
    rest = "".join(each.text for each in cls.line).replace(function.text, "")
    parts = re.findall(rf"\b{function.receiver}\.(\w+)(?=\.|\[)", function.text)
    return any(re.search(rf"\b{part}\b", rest) is None for part in parts)


def _fills_what_is_filled(function: Function, cls: Class) -> bool:
    """Whether it fills parameters of its object alone that have had values since they were made: `torch.ones(8)`."""
    calls = [node for node in function.all(ast.Call) if FILLS.search(ast.unparse(node))]
    names = [
        call.args[0].attr
        for call in calls
        if call.args and isinstance(call.args[0], ast.Attribute) and is_name(call.args[0].value, function.receiver)
    ]
    made = [assigned.value for name in names for _, assigned in cls.attributes.get(name, ())]
    given = [
        each.args[0]
        for each in made
        if isinstance(each, ast.Call) and each.args and last_name(each.func) == "Parameter"
    ]
    with_values = sum(isinstance(each, ast.Call) and not last_name(each.func).startswith("empty") for each in given)
    return bool(names) and len(names) == len(calls) and with_values == len(made)


def _is_initialised_otherwise(cls: Class) -> bool:
    """Whether a constructor hands the module to somebody, applies another function, or calls another such method."""
    for init in (base.methods["__init__"] for base in cls.line if "__init__" in base.methods):
        for call in (node for node in init.nodes if isinstance(node, ast.Call)):
            own = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == init.receiver
            if own and (last_name(call.func) == "apply" or _NAMED.search(last_name(call.func))):
                return True
            if any(is_name(part, init.receiver) for part in call.args):
                if last_name(call.func) not in ("super", "__init__"):
                    return True
    return False


def _is_named_elsewhere(sites: Sites, function: Function) -> bool:
    """Whether its name stands anywhere but in its definition: a call, an import, a string, an heir."""
    if not sites.is_named(function.name, times=2):
        return False
    if function.cls is None or _is_part_initialised(function.cls, function.name):
        return True
    return sites.is_named(function.name, times=2 + _meant_by_strangers(sites, function))


def _is_part_initialised(cls: Class, name: str) -> bool:
    """Whether it is a whole of parts that have a method of that name themselves, and may need no other."""
    assigned = (each for sets in cls.attributes.values() for _, each in sets)
    made = (cls.file.resolve(each.value.func, each.context) for each in assigned if isinstance(each.value, ast.Call))
    return any(isinstance(part, Class) and part.find(name) is not None for part in made)


def _meant_by_strangers(sites: Sites, function: Function) -> int:
    """How often modules that are no kin of this one define a method of that name, and call it on themselves."""
    assert function.cls is not None
    kin = {cls for heir in sites.once(heirs).get(function.cls, ()) for cls in heir.line}
    return sum(times for cls, times in sites.once_of(_meant_in, (sites, function.name)).items() if cls not in kin)


def _meant_in(asked: tuple[Sites, str]) -> dict[Class, int]:
    """The modules that define a method of that name, and how often each names it."""
    sites, name = asked
    having = (cls for cls in sites.classes if name in cls.methods and cls.libraries == {MODULE})
    return {cls: 1 + sum(_on_itself(method, name) for method in cls.methods.values()) for cls in having}


def _on_itself(method: Function, name: str) -> int:
    """How often a method names another of its object."""
    if name not in method.text:
        return 0
    return sum(is_attribute(node, method.receiver, name) for node in method.all(ast.Attribute))


def _is_one_of_several(sites: Sites, function: Function) -> bool:
    """Whether another beside it, to choose from, is the one that is called."""
    if function.cls is not None:
        beside = (other for other in function.cls.methods.values() if other is not function)
        filling = (other.name for other in beside if _NAMED.search(other.name) and FILLS.search(other.text))
        return any(f"self.{name}(" in function.cls.text for name in filling if name != "__init__")
    return any(
        other is not function
        and other.cls is None
        and _NAMED.search(other.name)
        and FILLS.search(other.text)
        and _is_for_modules(other)
        and _is_named_elsewhere(sites, other)
        for other in function.file.functions
    )


def _too_early(cls: Class) -> Iterator[Finding]:
    """`self.apply(init)` in `__init__`, before layers that nothing initialises afterwards."""
    init = cls.methods.get("__init__")
    if init is None or cls.libraries != {MODULE}:
        return
    body = init.node.body
    for number, line in enumerate(body):
        if not isinstance(line, ast.Expr) or not applies(line.value, init):
            continue
        rest = body[number + 1 :]
        if any(_OWN_WAYS.search(ast.unparse(other)) or _applies_in(other, init) for other in rest):
            continue
        assert isinstance(line.value, ast.Call)
        kinds = asked_for(init, line.value)
        later = [
            (name, at) for name, at, made in _assigned(cls, init) if at > line.lineno and has_any(cls, made, kinds)
        ]
        if later:
            yield Finding(
                f"The weights are initialised before `self.{later[0][0]}` is there: it keeps PyTorch's default",
                cls.file.place(line, init.inner).location,
                help="initialise at the end of `__init__`",
            )


def _applies_in(statement: ast.stmt, init: Function) -> bool:
    return any(isinstance(node, ast.Call) and applies(node, init) for node in walk(statement))


def _assigned(cls: Class, init: Function) -> list[tuple[str, int, ast.expr]]:
    """The layers with parameters that `__init__` makes, with their lines."""
    return [
        (name, assigned.node.lineno, assigned.value)
        for name, found in cls.attributes.items()
        for function, assigned in found
        if function is init and assigned.value is not None
        if holds_parameters(cls.file, assigned.value, assigned.context)
    ]
