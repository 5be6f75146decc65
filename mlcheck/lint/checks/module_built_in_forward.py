"""module-built-in-forward: a layer with weights or a mode that is new in every forward pass."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_attribute, is_name, last_name
from mlcheck.lint.sites import Call, Function, Sites, canonical
from mlcheck.lint.sites.guards import conditions, in_forward, only_where_asked, own_attribute
from mlcheck.lint.sites.layers.modules import CONTAINERS, LEARNING, PARAMETER, flat, holds_parameters, module_classes
from mlcheck.lint.sites.origins import callers, returns
from mlcheck.lint.sites.settings import setting

LOOKS_AT = "layer"
_MODED = frozenset(f"torch.nn.{name}" for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout"))
_NUMBERS = frozenset(["zeros", "ones", "randn", "rand", "empty", "full", "eye", "tensor"])
_REGISTERS = ("optim", ".grad", "register_", "setattr", "__dict__", "_parameters", "append", "update(")
_MOVES = ("to", "cuda", "double", "float", "half")


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(*sorted(LEARNING | _MODED), "torch.nn.Sequential"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        if in_forward(call) is None or not _is_used_here(call):
            continue
        if conditions(call.context) and not _is_applied_at_once(call):
            continue
        if call.name in CONTAINERS and (_is_of_own(call) or not holds_parameters(call.file, call.node, call.context)):
            continue
        layer = f"nn.{call.name.rpartition('.')[2]}"
        if call.constant("track_running_stats") is False:
            continue  # `nn.BatchNorm1d(8, track_running_stats=False)(x)` does the same however often it is made
        if call.name in LEARNING | CONTAINERS:
            message = f"`{layer}` is made anew in every forward pass: its weights are random and never trained"
        elif call.constant("p", 0, default=0.5) in (0, 0.0) or _is_asked_for(call):
            continue
        else:
            message = f"`{layer}` is made anew in every forward pass, in train mode: it drops in evaluation too"
        yield Finding(message, call.place.location, help="make it in `__init__` and keep it as an attribute")
    for call in _taken_from_tables(facts.sites):
        yield Finding(
            f"`{ast.unparse(call.node.func)}` makes a new layer in every forward pass: its weights are never trained",
            call.place.location,
            help="make it in `__init__` and keep it as an attribute",
        )
    for call, maker in _made_by_functions(facts.sites):
        yield Finding(
            f"`{maker.name}` makes new layers in every forward pass: their weights are random and never trained",
            call.place.location,
            help="make them in `__init__` and keep them as an attribute",
        )
    for call in _applied_by_functions(facts.sites, calls):
        yield Finding(
            f"`nn.{call.name.rpartition('.')[2]}` is created again whenever a forward pass calls this function: "
            "its weights are random and never trained",
            call.place.location,
            help="make it in the `__init__` of the module, and hand it to the function",
        )
    for call in facts.sites.calls(PARAMETER, "torch.nn.parameter.Parameter"):
        if in_forward(call) is None or conditions(call.context):
            continue
        if name := _put_in_place_of(call):
            yield Finding(
                f"Every forward pass puts a new parameter in the place of `self.{name}`, which the optimizer holds: "
                "it is never trained",
                call.place.location,
                help="compute with it under a local name, or change it in place under `torch.no_grad()`",
            )
        elif _is_new_parameter(call):
            yield Finding(
                "`nn.Parameter` is created again in every forward pass: no optimizer has it, so it is never trained",
                call.place.location,
                help="make it in `__init__` and keep it as an attribute",
            )


def _is_asked_for(call: Call) -> bool:
    return call.function is not None and only_where_asked(call.function, call.node)


def _is_of_own(call: Call) -> bool:
    """`nn.Sequential(self.first, *self.middle)`: nothing in it is new."""
    parts = [arg.value if isinstance(arg, ast.Starred) else arg for arg in call.node.args]
    return bool(parts) and all(own_attribute(part, call.function) for part in parts)


def _taken_from_tables(sites: Sites) -> Iterator[Call]:
    """`NORMS[self.norm](dim)(x)` in a forward pass, where all entries of the table are layers with weights."""
    for cls in sites.once(module_classes):
        forward = cls.methods.get("forward")
        for node in forward.nodes if forward is not None else ():
            if forward is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            table, where = cls.file.value(node.func.value, forward.inner)
            entry = setting(cls.file, table, where)
            file, table, where = entry if entry is not None else (cls.file, table, where)
            kinds = table.values if isinstance(table, ast.Dict) else []
            named = [file.resolve(kind, where) for kind in kinds]
            call = Call(cls.file, node, forward.inner)
            if named and all(isinstance(name, str) and canonical(name) in LEARNING for name in named):
                if _is_used_here(call):
                    yield call


def _made_by_functions(sites: Sites) -> Iterator[tuple[Call, Function]]:
    """`make_block(dim)(x)` in a forward pass, of a function that returns new layers whatever it is given."""
    for cls in sites.once(module_classes):
        forward = cls.methods.get("forward")
        for node in forward.all(ast.Call) if forward is not None else ():
            assert forward is not None
            maker = cls.file.resolve(node.func, forward.inner)
            if not isinstance(maker, Function) or maker.node.decorator_list:
                continue
            call, made = Call(cls.file, node, forward.inner), list(returns(maker))
            if maker.cls is not None and not (maker.cls in cls.line and all(isinstance(m, ast.Name) for m in made)):
                continue  # what a method makes where it returns it is spoken of there
            if made and all(_is_new(maker, each) for each in made) and _is_used_here(call):
                yield call, maker


def _is_new(maker: Function, made: ast.expr) -> bool:
    """A layer with weights, or `nn.Sequential(*layers)` of a list that the function fills with such."""
    if holds_parameters(maker.file, made, maker.inner):
        return True
    called = isinstance(made, ast.Call) and maker.file.called(made, maker.inner) in CONTAINERS
    parts = made.args if isinstance(made, ast.Call) and called else []
    held = {last_name(_before_slice(part.value if isinstance(part, ast.Starred) else part)) for part in parts}
    for node in maker.nodes if len(parts) == 1 else ():
        put: list[ast.expr] = []
        if isinstance(node, ast.AugAssign) and last_name(node.target) in held:
            put = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node.func.value) in held:
            put = node.args if node.func.attr in ("append", "extend") else []
        if any(holds_parameters(maker.file, each, maker.inner) for each in flat(put)):
            return True
    return False


def _before_slice(node: ast.expr) -> ast.expr:
    """`layers` of `layers[:-1]`."""
    return node.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) else node


def _applied_by_functions(sites: Sites, calls: list[Call]) -> Iterator[Call]:
    """`conv = nn.Conv2d(...)`, `return conv(x)`, in a function that a forward pass calls."""
    for call in calls:
        function = call.function
        if call.name not in LEARNING or function is None or function.cls is not None or not _is_used_here(call):
            continue
        if conditions(call.context) and not _is_applied_at_once(call):
            continue
        if function.defined.context.kind == "module" and any(in_forward(other) for other in callers(sites, function)):
            yield call


def _put_in_place_of(call: Call) -> str:
    """`proto` of `self.proto = nn.Parameter(normalize(self.proto))`, where the constructor makes a parameter of it."""
    function = call.function
    targets = [target for node in _assigned(function, call.node) for target in node.targets] if function else []
    name = own_attribute(targets[0], function) if len(targets) == 1 else ""
    sets = call.cls.attribute(name) if call.cls is not None and name else []
    first = [each for where, each in sets if where.name == "__init__" and isinstance(each.value, ast.Call)]
    if not first or call.constant("requires_grad", 1, default=True) is not True:
        return ""
    made = {call.file.resolve(each.value.func, each.context) for each in first if isinstance(each.value, ast.Call)}
    asked = function is not None and any(word in function.text for word in _REGISTERS)
    return name if made <= {PARAMETER, "torch.nn.parameter.Parameter"} and not asked else ""


def _is_new_parameter(call: Call) -> bool:
    """Filled with numbers that depend on no input, and held by a local name that only the result is computed from."""
    function, made = call.function, call.node.args[0] if call.node.args else None
    if (
        function is None
        or call.constant("requires_grad", 1, default=True) is not True
        or not isinstance(made, ast.Call)
    ):
        return False
    named = call.file.resolve(made.func, call.context)
    if not isinstance(named, str) or named.removeprefix("torch.") not in _NUMBERS:
        return False
    targets = [ast.unparse(target) for node in _assigned(function, call.node) for target in node.targets]
    kept = any(node for name in targets for node in _assigned(function, name)) or not all(
        map(str.isidentifier, targets)
    )
    text = function.text
    return not kept and not any(word in text for word in _REGISTERS)


def _assigned(function: Function, value: ast.expr | str) -> list[ast.Assign]:
    """Where the very expression, or a variable, is assigned as it is."""
    return [
        node
        for node in function.nodes
        if isinstance(node, ast.Assign)
        and (node.value is value or (isinstance(value, str) and is_name(node.value, value)))
    ]


def _is_applied_at_once(call: Call) -> bool:
    """`nn.Linear(3, 4)(x)`: nobody keeps it for the next time."""
    assert call.function is not None
    return any(
        isinstance(node, ast.Call) and node is not call.node and before_methods(node.func, _MOVES) is call.node
        for node in call.function.nodes
    )


def _is_used_here(call: Call) -> bool:
    """Called at once, or held by a local name that is only ever called, or by an attribute that is called."""
    function = call.function
    assert function is not None
    for node in function.nodes:
        if isinstance(node, ast.Call) and before_methods(node.func, _MOVES) is call.node and node is not call.node:
            return True
        if isinstance(node, ast.Return) and node.value is call.node:
            return _is_called_at_once(function)
        target = _given(node, call) if isinstance(node, ast.Assign) and len(node.targets) == 1 else ""
        if target:
            uses = [n for n in function.nodes if isinstance(n, ast.expr) and _reads(n, target)]
            called = {id(n.func) for n in function.nodes if isinstance(n, ast.Call)}
            moved = {id(n.value) for n in function.nodes if isinstance(n, ast.Attribute) and n.attr in _MOVES}
            return any(id(n) in called for n in uses) and all(id(n) in called | moved for n in uses)
    return False


def _given(line: ast.Assign, call: Call) -> str:
    """The name that an assignment gives what is made, also as one of several: `a, b = make(), make()`."""
    names, values = line.targets, [line.value]
    if isinstance(names[0], ast.Tuple) and isinstance(line.value, ast.Tuple):
        names, values = names[0].elts, line.value.elts
    made = (name for name, value in zip(names, values, strict=False) if before_methods(value, _MOVES) is call.node)
    return next(map(ast.unparse, made), "")


def _is_called_at_once(function: Function) -> bool:
    """`self.mlp(n)(x)`: what the method makes is applied in `forward`, and nobody keeps it."""
    forward = function.cls.methods.get("forward") if function.cls is not None else None
    uses = [node for node in forward.nodes if is_attribute(node, "self", function.name)] if forward is not None else []
    made = {id(node.func): node for node in forward.nodes if isinstance(node, ast.Call)} if forward is not None else {}
    applied = {id(before_methods(node.func, _MOVES)) for node in made.values()}
    return bool(uses) and all(id(use) in made and id(made[id(use)]) in applied for use in uses)


def _reads(node: ast.expr, target: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) == target
