"""Where a value may come from: back through names, parameters, returns, attributes and both arms of a choice."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import is_name, is_none, last_name
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.instances import calls_of_instances
from mlcheck.lint.sites.iteration import handed_through
from mlcheck.lint.sites.latest import reaching, settled
from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call, Class, Function
from mlcheck.lint.sites.objects import class_of_object
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.records import field, made_of
from mlcheck.lint.sites.returning import returned
from mlcheck.lint.sites.returning import returns as returns
from mlcheck.lint.sites.scopes import Binding, Context
from mlcheck.lint.sites.written_tables import entries_of

_THROUGH = {"enumerate", "iter", "zip", "tqdm", "cycle", "islice", "list", "trange", "reversed", "next", "map"}
_GIVES_BACK = ("apex.amp.initialize", "amp.initialize")
_LISTS = ("torch.nn.ModuleList", "torch.nn.Sequential", "builtins.list", "builtins.tuple")
_DEPTH, _MANY = 10, 40


class Origin(NamedTuple):
    """An expression, where it stands, and which item of it is meant (-1: all of it).

    `entered` is the call through which the function around it was reached, if it was reached through one.
    """

    file: File
    node: ast.expr
    context: Context
    item: int = -1
    entered: Entered | None = None

    @property
    def spot(self) -> tuple[int, int, tuple[int, ...]]:
        """The same for one value alone: `load("val")` and `load("test")` enter the same line in two ways."""
        return id(self.node), self.item, self.entered.way if self.entered is not None else ()

    @property
    def name(self) -> str:
        """The full name of the library function or class it calls; "" for anything else."""
        if not isinstance(self.node, ast.Call):
            return ""
        named = self.file.resolve(self.node.func, self.context)
        return named if isinstance(named, str) else ""

    def told(self, name: str, position: int | None = None, default: Hashable = None) -> object:
        """The constant that the call gives for a parameter, also where the function around it was given that."""
        call = Call(self.file, self.node, self.context) if isinstance(self.node, ast.Call) else None
        value = call.argument(name, position) if call is not None else OPEN
        if value is None or value is OPEN or call is None:
            return default if value is None else UNKNOWN
        known = self.entered.constant(value) if self.entered is not None else UNKNOWN
        return self.file.constant(value, self.context) if isinstance(known, type(UNKNOWN)) else known


def origins(file: File, node: ast.expr, context: Context, entered: Entered | None = None) -> list[Origin]:
    """The expressions that the value of `node` may come from. What cannot be followed stands for itself."""
    found: list[Origin] = []
    todo, seen = [(Origin(file, node, context, -1, entered), _DEPTH)], set[tuple[int, int, tuple[int, ...]]]()
    while todo and len(seen) < _MANY:
        origin, depth = todo.pop()
        if origin.spot in seen:
            continue
        seen.add(origin.spot)
        further = list(_step(origin)) if depth else []
        if further:
            todo += [(step, depth - 1) for step in further]
        else:
            found.append(origin)
    return found


def sole(file: File, node: ast.expr, context: Context, entered: Entered | None = None) -> Origin | None:
    """The one expression that the value of `node` comes from, through functions too; None where it may be others."""
    found = origins(file, node, context, entered)
    last = settled(file, node, context) if len(found) > 1 and isinstance(node, ast.Name) else None
    if last is not None and isinstance(last.value, ast.expr) and last.kind == "value":
        found = origins(file, last.value, last.context, entered)  # `scores = hide(scores, mask)`: what they are now
    return found[0] if len(found) == 1 else None


def _step(origin: Origin) -> Iterator[Origin]:
    """One step back; nothing where the expression is an origin itself."""
    file, node, context, item, entered = origin
    if isinstance(node, ast.Name):
        for binding in reaching(file, node, context):
            if entered is None or not entered.leaves_out(node, binding.context):
                yield from _bound(file, binding, item, entered)
    elif isinstance(node, ast.Attribute):
        yield from _attribute(file, node, context, item)
    elif isinstance(node, ast.Subscript) and (key := _key(node, entered)) is not None:
        held = file.item_of(node.value, context, key)
        if held is not None and held is not OPEN:
            yield Origin(file, held, file.value(node.value, context)[1], item)
        elif held is OPEN and isinstance(node.value, ast.Name | ast.Attribute):
            table = Origin(file, node.value, context)
            yield from (each._replace(item=item) for each in entries_of(table, key, _step))
    elif isinstance(node, ast.IfExp):
        answer = entered.answer(node.test) if entered is not None else None
        arms = [node.body] * (answer is not False) + [node.orelse] * (answer is not True)
        yield from (Origin(file, arm, context, item, entered) for arm in arms)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        if all(_is_never_given(file, arm, context) for arm in node.values[:-1]):
            yield Origin(file, node.values[-1], context, item, entered)
    elif isinstance(node, ast.NamedExpr | ast.Await | ast.Starred):
        yield Origin(file, node.value, context, item, entered)
    elif isinstance(node, ast.Tuple | ast.List) and 0 <= item < len(node.elts):
        yield Origin(file, node.elts[item], context, -1, entered)
    elif isinstance(node, ast.Call):
        yield from _call(origin, node)


def _key(node: ast.Subscript, entered: Entered | None) -> str | None:
    """`"train"` of `sets["train"]`, and of `sets[split]` in a function that is given the word."""
    key = entered.constant(node.slice) if entered is not None and isinstance(node.slice, ast.Name) else None
    key = node.slice.value if isinstance(node.slice, ast.Constant) else key
    return key if isinstance(key, str) else None


def _is_never_given(file: File, node: ast.expr, context: Context) -> bool:
    """Whether it is a parameter that is None in each call that can be seen."""
    if not isinstance(node, ast.Name):
        return False
    bound = reaching(file, node, context)
    function = file.function_around(bound[0].context) if len(bound) == 1 and bound[0].kind == "param" else None
    held = list(given(file.sites, function, node.id)) if function is not None else []
    return bool(held) and all(is_none(each.node) for each in held)


def _bound(file: File, binding: Binding, item: int, entered: Entered | None) -> Iterator[Origin]:
    if binding.kind == "value" and isinstance(binding.value, ast.expr):
        yield Origin(file, binding.value, binding.context, item, entered)
    elif binding.kind == "item" and isinstance(binding.value, ast.expr):
        yield Origin(file, binding.value, binding.context, binding.item, entered)
    elif binding.kind == "with" and isinstance(binding.value, ast.Call) and last_name(binding.value.func) in _THROUGH:
        yield Origin(file, binding.value, binding.context, item, entered)
    elif binding.kind == "param" and isinstance(binding.node, ast.arg):
        function = file.function_around(binding.context)
        held = entered.passed(binding.node.arg) if entered is not None and entered.function is function else None
        if held is not None and entered is not None and function is not None:
            value, is_default = held
            place = (file, function.defined.context) if is_default else (entered.call.file, entered.call.context)
            yield Origin(place[0], value, place[1], item, None if is_default else entered.outer)
        elif function is not None:
            handed = given(file.sites, function, binding.node.arg)
            yield from (each._replace(item=item) if each.item < 0 else each for each in handed)
    elif binding.kind == "from":
        named = file.sites.variable(file, binding)
        if named is not None:
            yield Origin(named[0], named[1], named[0].walk.module, item)


def _attribute(file: File, node: ast.Attribute, context: Context, item: int) -> Iterator[Origin]:
    method = file.method_around(context)
    if method is not None and is_name(node.value, method.receiver):
        cls = method.cls
    else:
        cls = made_of(file, node.value, context)
        yield from (Origin(*held, item) for held in field(file, node.value, context, node.attr))
    if cls is not None and (asked := cls.find(node.attr)) is not None and _is_property(asked):
        yield from (Origin(asked.file, answer, asked.inner, item) for answer in returns(asked))
    yield from _buffer(cls, node.attr) if cls is not None else ()
    for function, assigned in cls.attribute(node.attr) if cls is not None else ():
        if assigned.value is not None:
            yield Origin(function.file, assigned.value, assigned.context, item)
        elif assigned.unpacked is not None:
            yield Origin(function.file, assigned.unpacked, assigned.context, assigned.item)


def _buffer(cls: Class, name: str) -> Iterator[Origin]:
    """What `self.register_buffer("mask", mask)` keeps under the name."""
    for base in cls.line:
        for call in base.file.calls("register_buffer") if name in base.text else ():
            method = base.file.method_around(call.context)
            if method is not None and method.cls is base and call.constant("name", 0) == name:
                given = call.argument("tensor", 1)
                if given is not None and given is not OPEN:
                    yield Origin(base.file, given, call.context)


def _is_property(method: Function) -> bool:
    return any(last_name(each) in ("property", "cached_property") for each in method.node.decorator_list)


def _call(origin: Origin, node: ast.Call) -> Iterator[Origin]:
    file, _, context, item, entered = origin
    named = file.resolve(node.func, context)
    if named is None and isinstance(node.func, ast.Name | ast.Attribute):
        made = class_of_object(file, node.func, context, _DEPTH)
        named = made.find("__call__") if made is not None else None
    if isinstance(named, Function):
        through = Entered(named, Call(file, node, context), entered)
        for answer, where in returned(named):
            if not through.leaves_out(answer, where):
                yield Origin(named.file, answer, named.inner, item, through)
        yield from (Origin(named.file, over, named.inner, -1, through) for over in handed_through(named.nodes))
    elif item < 0:
        last = last_name(node.func)
        of_itself = last == "map" and isinstance(node.func, ast.Attribute)  # `data.map(tokenize)`
        if last in _THROUGH and not isinstance(named, Class) and not of_itself:
            yield from (Origin(file, argument, context, -1, entered) for argument in node.args)
        elif last in ("prepare", "to_device", "setup_dataloaders") and len(node.args) == 1:
            yield Origin(file, node.args[0], context)
    elif named in _LISTS and len(node.args) == 1 and isinstance(parts := node.args[0], ast.List | ast.Tuple):
        if item < len(parts.elts) and not any(isinstance(part, ast.Starred) for part in parts.elts):
            yield Origin(file, parts.elts[item], context, -1, entered)
    elif item < len(node.args) and (named in _GIVES_BACK or getattr(node.func, "attr", "") == "prepare"):
        yield Origin(file, node.args[item], context)


def given(sites: Sites, function: Function, parameter: str) -> Iterator[Origin]:
    """What the calls of a function that can be seen give for a parameter; its default where one gives nothing."""
    names = list(function.parameters)
    position = names.index(parameter) if parameter in names else None
    if position is not None and function.receiver:
        position = position - 1 if position > 0 else None  # nobody gives the receiver
    for call in callers(sites, function):
        value = call.argument(parameter, position)
        if value is None:
            value = function.parameters.get(parameter)
            if value is not None:
                yield Origin(function.file, value, function.defined.context)
        elif value is not OPEN:
            yield Origin(call.file, value, call.context)


def callers(sites: Sites, function: Function) -> Iterator[Call]:
    """The calls that certainly mean this function; of a constructor, those of its class and of its heirs' `super()`."""
    wanted: Function | Class = function
    name = function.name
    if name in ("__call__", "forward") and function.cls is not None:
        yield from calls_of_instances(sites, function, function.cls)
        if name == "__call__":
            return
    if name == "__init__" and function.cls is not None:
        yield from sites.once_of(_by_meaning, (sites, name)).get(function, ())
        wanted, name = function.cls, function.cls.name
    yield from sites.once_of(_by_meaning, (sites, name)).get(wanted, ())


def _by_meaning(asked: tuple[Sites, str]) -> dict[Function | Class, list[Call]]:
    """The calls by a name, or by what a file calls it, of what each certainly means."""
    sites, name = asked
    found: dict[Function | Class, list[Call]] = {}
    for file in sites.mentioning([name]):
        for call in file.calls(name, *file.walk.aliases.get(name, ())):
            named = file.resolve(call.node.func, call.context)
            if isinstance(named, Function | Class):
                found.setdefault(named, []).append(call)
        for call in file.calls("cls") if f"class {name}" in file.text else ():
            named = file.resolve(call.node.func, call.context)
            if isinstance(named, Class) and named.name == name:
                found.setdefault(named, []).append(call)
    return found
