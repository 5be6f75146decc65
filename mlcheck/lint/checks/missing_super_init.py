"""missing-super-init: a module assigns layers although `nn.Module.__init__` has not run."""

import ast
import math
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_attribute, is_name, last_name, walk
from mlcheck.lint.sites import AttributeSet, Class, Function, canonical
from mlcheck.lint.sites.layers.modules import MODULE, holds_parameters, is_plain, makes_module, module_classes

LOOKS_AT = "module class"
_REGISTERS = ("register_buffer", "register_parameter")
_WITHOUT_CONSTRUCTOR = frozenset(["builtins.object", "abc.ABC", "typing.Generic"])
_STARTS_NOTHING = (*_REGISTERS, "save_hyperparameters")


def check(facts: Facts) -> Iterator[Finding]:
    for cls in facts.sites.once(module_classes):
        yield from _skipped(cls)
        yield from _begun_twice(cls)
        yield from _of_dataclass(cls)
        init = cls.methods.get("__init__")
        if (
            init is None
            or not is_plain(cls)
            or cls.node.decorator_list
            or any("__new__" in c.methods for c in cls.line)
        ):
            continue
        if _starts_well(init.node.body) and not _begins_elsewhere(cls, init, init.node.body[0]):
            continue
        begins = _initialised(cls, init)
        layers = [*_layers(cls, init, begins), *(node for node in _registered(init) if node.lineno < begins)]
        made = [(init, node) for node in layers] or list(_made_by_others(cls, init, begins))
        if made:
            where, first = min(made, key=lambda each: each[1].lineno)
            what = "registers a buffer" if isinstance(first, ast.Call) else "assigns a layer"
            yield Finding(
                f"`{cls.name}` {what} before `nn.Module.__init__` has run: this raises AttributeError",
                where.place(first).location,
                help="make `super().__init__()` the first line of `__init__`",
            )


def _skipped(cls: Class) -> Iterator[Finding]:
    """`super(Base, self).__init__()` in a class under `Base`: what comes after it runs, and `Base` makes no layers."""
    init = cls.methods.get("__init__")
    for node in init.nodes if init is not None and len(cls.line) > 1 and is_plain(cls) else ():
        if init is None or not isinstance(node, ast.Attribute) or node.attr != "__init__":
            continue
        after = _asked(node.value)
        if not isinstance(after, ast.expr):
            continue
        base = cls.file.resolve(after, init.inner)
        begun = base.methods.get("__init__") if isinstance(base, Class) and base in cls.line[1:] else None
        text = _text_with_inherited(cls)
        if not isinstance(base, Class) or begun is None or f"{base.name}.__init__" in text:
            continue
        made = {last_name(layer.target) for layer in _assigned_layers(base, begun)}
        missed = sorted(name for name in made - set(cls.attributes) if re.search(rf"self\.{name}\b", text))
        if missed:
            yield Finding(
                f"`super({base.name}, self)` passes over `{base.name}.__init__`, which makes `self.{missed[0]}`",
                init.place(node).location,
                help=f"`super().__init__(...)`, with what `{base.name}` asks for",
                related=(begun.place().location,),
            )


def _text_with_inherited(cls: Class) -> str:
    """The text of a class, and of the methods that it has from those above it and calls."""
    text = cls.text
    for base in cls.line[1:]:
        for name, method in base.methods.items():
            if name not in cls.methods and cls.find(name) is method and f"self.{name}(" in text:
                text += method.text
    return text


def _begun_twice(cls: Class) -> Iterator[Finding]:
    """`A.__init__(self)` and then `B.__init__(self)`, of which each runs `nn.Module.__init__`."""
    init = cls.methods.get("__init__")
    made: Function | None = None
    for call in cls.file.calls("__init__") if init is not None and is_plain(cls) else ():
        owner = call.owner
        base = cls.file.resolve(owner, call.context) if isinstance(owner, ast.Name | ast.Attribute) else None
        if call.function is not init or not isinstance(base, Class) or base not in cls.bases:
            continue
        begun = base.methods.get("__init__")
        if begun is None or not _begins_itself(begun):
            continue
        if made is not None:
            yield Finding(
                f"`{ast.unparse(call.node.func)}` runs `nn.Module.__init__` once more: the layers of "
                f"`{made.cls.name if made.cls else ''}` are gone",
                call.place.location,
                help="give the object one of each as an attribute, or let all constructors run through `super()`",
                related=(made.place().location,),
            )
        made = begun if any(True for _ in _assigned_layers(base, begun)) else made


def _begins_itself(init: Function) -> bool:
    """Whether a constructor names `nn.Module.__init__`: `super()` may mean the next base of somebody's own class."""
    calls = (node for node in init.nodes if isinstance(node, ast.Call) and last_name(node.func) == "__init__")
    owners = (node.func.value for node in calls if isinstance(node.func, ast.Attribute))
    named = (init.file.resolve(owner, init.inner) for owner in owners if isinstance(owner, ast.Name | ast.Attribute))
    return any(isinstance(name, str) and canonical(name) == MODULE for name in named)


def _of_dataclass(cls: Class) -> Iterator[Finding]:
    """A `@dataclass` that makes layers in `__post_init__`: the constructor written for it calls nobody's."""
    made = cls.methods.get("__post_init__")
    decorators = [getattr(node, "func", node) for node in cls.node.decorator_list]
    named = [cls.file.resolve(node, cls.defined.context) for node in decorators]
    if made is None or named != ["dataclasses.dataclass"] or cls.libraries != {MODULE} or len(cls.line) > 1:
        return
    if "__init__" in cls.methods or "__new__" in cls.methods or any("__init__" in ast.unparse(n) for n in made.nodes):
        return
    layers = [layer.node for layer in _assigned_layers(cls, made)]
    if layers:
        yield Finding(
            f"`{cls.name}` assigns a layer and `nn.Module.__init__` never runs: this raises AttributeError",
            made.place(min(layers, key=lambda node: node.lineno)).location,
            help="make `super().__init__()` the first line of `__post_init__`",
        )


def _starts_well(body: list[ast.stmt]) -> bool:
    """Whether the first thing done is `super().__init__()` or the like."""
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    call = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def _registered(init: Function) -> Iterator[ast.Call]:
    """`self.register_buffer(...)` and `self.register_parameter(...)`."""
    for node in init.all(ast.Call) if any(name in init.text for name in _REGISTERS) else ():
        if any(is_attribute(node.func, init.receiver, name) for name in _REGISTERS):
            yield node


def _layers(cls: Class, init: Function, end: float) -> Iterator[ast.stmt | ast.expr]:
    """The layers that are assigned before that line."""
    return (layer.node for layer in _assigned_layers(cls, init) if layer.node.lineno < end)


def _made_by_others(cls: Class, init: Function, end: float) -> Iterator[tuple[Function, ast.stmt | ast.expr]]:
    """The layers that methods assign which the constructor calls before that line, under no condition."""
    for line in init.node.body:
        call = line.value if isinstance(line, ast.Expr) and line.lineno < end else None
        own = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
        method = cls.methods.get(own) if own and is_attribute(call.func, init.receiver, own) else None  # type: ignore[union-attr]
        if method is not None:
            yield from ((method, layer.node) for layer in _assigned_layers(cls, method))


def _assigned_layers(cls: Class, init: Function) -> Iterator[AttributeSet]:
    """What the constructor assigns that is certainly a module or a parameter."""
    for assignments in cls.attributes.values():
        for function, assigned in assignments:
            if function is init and assigned.value is not None:
                parts = (cls.file, assigned.value, assigned.context)
                if holds_parameters(*parts) or makes_module(*parts):
                    yield assigned


def _begins_elsewhere(cls: Class, init: Function, node: ast.AST) -> bool:
    """Whether the constructor that this runs ends in a class of the project that is no module and calls nobody further.

    `Logged.__init__(self)`; `super().__init__()` where `Logged` stands before the module among the bases.
    """
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "__init__":
        return False
    after = _asked(call.func.value)
    if after is None:
        base = cls.file.resolve(call.func.value, init.inner)
        return isinstance(base, Class) and _is_the_end(base, [each.text for each in base.line])
    above = cls.file.resolve(after, init.inner) if isinstance(after, ast.expr) else cls
    if isinstance(above, str):
        return canonical(above) == MODULE
    first = _next_constructor(cls) if above is cls else None
    return first is not None and _is_the_end(first.cls, [first.text])


def _asked(node: ast.expr) -> ast.expr | bool | None:
    """`Net` of `super(Net, self)`, True of `super()`; None of anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "super":
        return None
    return node.args[0] if node.args else True


def _next_constructor(cls: Class) -> Function | None:
    """The `__init__` that `super().__init__()` of this class means, where it is one of the project's."""
    for base in cls.bases:
        if isinstance(base, str) and base not in _WITHOUT_CONSTRUCTOR:
            return None
        if base is None or (isinstance(base, Class) and not base.libraries <= _WITHOUT_CONSTRUCTOR):
            return None
        if isinstance(base, Class) and (found := base.find("__init__")) is not None:
            return found
    return None


def _is_the_end(cls: Class | None, texts: list[str]) -> bool:
    """Whether these constructors of a class that is no module hand nothing on to another."""
    text = "".join(texts)
    no_module = cls is not None and cls.libraries <= _WITHOUT_CONSTRUCTOR
    return no_module and "super(" not in text and "__init__(self" not in text.replace("def __init__(self", "")


def _initialised(cls: Class, init: Function) -> float:
    """The first line that may run the base's `__init__`, in whatever branch."""
    calls = [node for node in init.nodes if isinstance(node, ast.Call)]
    elsewhere = [part for call in calls if _begins_elsewhere(cls, init, call) for part in (call, *walk(call.func))]
    begin = (call for call in calls if call not in elsewhere and _may_initialise(cls, init, call))
    return min((call.lineno for call in begin), default=math.inf)


def _may_initialise(cls: Class, method: Function, call: ast.Call) -> bool:
    """`super().__init__()`, `Base.__init__(self)`, and whatever else is handed the object or may be such."""
    func, receiver = call.func, method.receiver
    if isinstance(func, ast.Name):
        return func.id == "super" or any(is_name(arg, receiver) for arg in call.args)
    if not isinstance(func, ast.Attribute):
        return True
    if is_name(func.value, receiver) and func.attr not in _STARTS_NOTHING:
        own = cls.find(func.attr)
        return own is None or _begins_in(cls, own)
    return func.attr == "__init__" or any(is_name(a, receiver) for a in call.args)


def _begins_in(cls: Class, method: Function) -> bool:
    """Whether a method of the object may do it: all but those that call nothing of the object, and hand it to none."""
    calls = [node for node in method.nodes if isinstance(node, ast.Call)]
    own = [call for call in calls if isinstance(call.func, ast.Attribute) and is_name(call.func.value, method.receiver)]
    further = [call for call in own if call.func.attr in cls.methods]  # type: ignore[attr-defined]
    return bool(further) or any(_may_initialise(cls, method, call) for call in calls if call not in own)
