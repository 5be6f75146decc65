"""direct-forward: `model.forward(x)` in place of `model(x)`."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites import Call, Class, Function
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.iteration import iteration_of
from mlcheck.lint.sites.layers.modules import is_module, is_module_name
from mlcheck.lint.sites.layers.skipped_hooks import skipped

LOOKS_AT = "model call"
_RETURN_SELF = ("eval", "train", "to", "cuda", "cpu", "half", "float", "double", "requires_grad_")
_MODES = frozenset(["eval", "train"])
_STATES = frozenset(["parameters", "named_parameters", "state_dict", "load_state_dict", "register_forward_hook"])
_LISTS = frozenset(["torch.nn.ModuleList", "torch.nn.Sequential"])
_TABLES = frozenset(["torch.nn.ModuleDict"])
_THROUGH = ("zip", "reversed")


def check(facts: Facts) -> Iterator[Finding]:
    told = {each.call.place.spot for each in facts.sites.once(skipped)}
    for bypass in facts.bypasses:
        if bypass.place.spot not in told:
            told.add(bypass.place.spot)
            yield _finding(bypass.name, bypass.place)
    for file in facts.sites.mentioning([".forward("]):
        for call in file.calls("forward"):
            owner = call.owner
            if owner is None or call.place.spot in told:
                continue
            if _is_declared(call, owner) or _is_used_as_module(call, owner) or _is_in_list(call, owner):
                yield _finding(ast.unparse(owner), call.place)
    for call in facts.sites.calls("functools.partial", "builtins.map"):
        given = call.node.args[0] if call.node.args else None
        if isinstance(given, ast.Attribute) and given.attr == "forward" and _is_module_object(call, given.value):
            yield _finding(ast.unparse(given.value), call.place)
    for call in facts.sites.calls("torch.utils.checkpoint.checkpoint"):
        given = call.node.args[0] if call.node.args else None
        if isinstance(given, ast.Attribute) and given.attr == "forward" and _is_in_list(call, given.value):
            yield _finding(ast.unparse(given.value), call.place)


def _finding(name: str, place: Place) -> Finding:
    return Finding(
        f"`{name}.forward()` skips the module's hooks, and with them DDP, FSDP and profilers",
        place.location,
        help=f"call the module itself: `{name}(...)`",
    )


def _is_module_object(call: Call, owner: ast.expr) -> bool:
    """Whether it is a module by what it was made of, by its annotation or by its use; not the object itself."""
    if isinstance(owner, ast.Name) and call.function is not None and owner.id == call.function.receiver:
        return False
    made, context = call.file.value(owner, call.context)
    if isinstance(made, ast.Call):
        made, context = call.file.value(before_methods(made, _RETURN_SELF), context)
        named = call.file.resolve(made.func, context) if isinstance(made, ast.Call) else None
        if isinstance(named, Class | str):
            return is_module(named) if isinstance(named, Class) else is_module_name(named)
    return _is_declared(call, owner) or _is_used_as_module(call, owner) or _is_in_list(call, owner)


def _is_declared(call: Call, owner: ast.expr) -> bool:
    """Whether it is a parameter that is annotated as a module, or an attribute that holds such."""
    function = call.function
    if isinstance(owner, ast.Name):
        return function is not None and _is_annotated(function, owner.id)
    name = own_attribute(owner, function)
    if function is None or function.cls is None or not name:
        return False
    sets = function.cls.attribute(name)
    values = [(where, before_methods(assigned.value, _RETURN_SELF)) for where, assigned in sets if assigned.value]
    return len(values) == len(sets) > 0 and all(
        isinstance(value, ast.Name) and _is_annotated(where, value.id) for where, value in values
    )


def _is_used_as_module(call: Call, owner: ast.expr) -> bool:
    """A parameter, or what an attribute keeps of one, whose mode is set and whose weights are asked for as well."""
    function = call.function
    if function is None:
        return False
    name = own_attribute(owner, function)
    if name and function.cls is not None:
        sets = function.cls.attribute(name)
        given = [(where, before_methods(assigned.value, _RETURN_SELF)) for where, assigned in sets if assigned.value]
        around: ast.AST = function.cls.node
    elif isinstance(owner, ast.Name):
        sets, given, around = [], [(function, owner)], function.node
    else:
        return False
    if not given or len(given) < len(sets) or not all(_is_parameter(where, value) for where, value in given):
        return False
    methods = {
        node.func.attr
        for node in walk(around)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if ast.unparse(node.func.value) == ast.unparse(owner)
    }
    return bool(methods & _MODES) and bool(methods & _STATES)


def _is_parameter(function: Function, node: ast.expr) -> bool:
    bound = function.file.bindings(node.id, function.inner) if isinstance(node, ast.Name) else []
    return len(bound) == 1 and bound[0].kind == "param"


def _is_in_list(call: Call, owner: ast.expr) -> bool:
    """`for layer in self.layers`, where that is an `nn.ModuleList`, a `Sequential` or the values of a `ModuleDict`."""
    function = call.function
    if not isinstance(owner, ast.Name) or function is None or function.cls is None:
        return False
    bound = function.file.bindings(owner.id, call.context)
    over = _walked(bound[0].node, owner.id) if len(bound) == 1 else None
    kinds = _LISTS
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "values":
        over, kinds = over.func.value, _TABLES
    sets = function.cls.attribute(own_attribute(over, function)) if over is not None else []
    return bool(sets) and all(where.file.called(assigned.value, where.inner) in kinds for where, assigned in sets)


def _walked(loop: ast.AST, name: str) -> ast.expr | None:
    """What a loop or a comprehension takes the variable from, through `enumerate` and `zip`."""
    if isinstance(loop, ast.ListComp | ast.GeneratorExp) and len(loop.generators) == 1:
        turn = iteration_of(loop.generators[0])
    elif isinstance(loop, ast.For):
        turn = iteration_of(loop)
    else:
        return None
    over, brought = turn.over, turn.brought
    parts = over.args if isinstance(over, ast.Call) and ast.unparse(over.func) in _THROUGH else [over]
    names = [ast.unparse(each) for each in (brought.elts if isinstance(brought, ast.Tuple) else [brought])]
    return parts[names.index(name)] if name in names and len(names) == len(parts) else None


def _is_annotated(function: Function, name: str) -> bool:
    bound = function.file.bindings(name, function.inner)
    node = bound[0].node if len(bound) == 1 and bound[0].kind == "param" else None
    annotation = node.annotation if isinstance(node, ast.arg) else None
    named = function.file.resolve(annotation, function.defined.context) if annotation is not None else None
    return is_module(named) if isinstance(named, Class) else isinstance(named, str) and is_module_name(named)
