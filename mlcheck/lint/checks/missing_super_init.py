"""missing-super-init: a module assigns layers although `nn.Module.__init__` has not run."""

import ast
import math
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_attribute
from mlcheck.lint.sites import Class, Function
from mlcheck.lint.sites.modules import holds_parameters, is_plain, makes_module, module_classes

LOOKS_AT = "module class"
_REGISTERS = ("register_buffer", "register_parameter")
_STARTS_NOTHING = (*_REGISTERS, "save_hyperparameters")


def check(facts: Facts) -> Iterator[Finding]:
    for cls in facts.sites.once(module_classes):
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
        if layers:
            first = min(layers, key=lambda node: node.lineno)
            what = "registers a buffer" if isinstance(first, ast.Call) else "assigns a layer"
            yield Finding(
                f"`{cls.name}` {what} before `nn.Module.__init__` has run: this raises AttributeError",
                init.place(first).location,
                help="make `super().__init__()` the first line of `__init__`",
            )


def _starts_well(body: list[ast.stmt]) -> bool:
    """Whether the first thing done is `super().__init__()` or the like."""
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    call = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"


def _registered(init: Function) -> Iterator[ast.Call]:
    """`self.register_buffer(...)` and `self.register_parameter(...)`."""
    for node in init.nodes:
        if isinstance(node, ast.Call) and any(is_attribute(node.func, init.receiver, name) for name in _REGISTERS):
            yield node


def _layers(cls: Class, init: Function, end: float) -> Iterator[ast.stmt | ast.expr]:
    """The layers that are assigned before that line."""
    for assignments in cls.attributes.values():
        for function, assigned in assignments:
            if function is init and assigned.value is not None and assigned.node.lineno < end:
                parts = (cls.file, assigned.value, assigned.context)
                if holds_parameters(*parts) or makes_module(*parts):
                    yield assigned.node


def _begins_elsewhere(cls: Class, init: Function, node: ast.AST) -> bool:
    """`Logged.__init__(self)`, of a class of the project that is no module and calls nobody further."""
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "__init__":
        return False
    base = cls.file.resolve(call.func.value, init.inner)
    if not isinstance(base, Class) or not base.libraries <= {"builtins.object"}:
        return False
    text = "".join(each.file.module.text_of(each.node) for each in base.line)
    return "super(" not in text and "__init__(self" not in text.replace("def __init__(self", "")


def _initialised(cls: Class, init: Function) -> float:
    """The first line that may run the base's `__init__`, in whatever branch."""
    calls = (node for node in init.nodes if isinstance(node, ast.Call) and not _begins_elsewhere(cls, init, node))
    return min((node.lineno for node in calls if _may_initialise(node, init.receiver)), default=math.inf)


def _may_initialise(call: ast.Call, receiver: str) -> bool:
    """`super().__init__()`, `Base.__init__(self)`, and whatever else is handed the object or may be such."""
    func = call.func
    if isinstance(func, ast.Name):
        return func.id == "super" or any(isinstance(arg, ast.Name) and arg.id == receiver for arg in call.args)
    if not isinstance(func, ast.Attribute):
        return True
    own = isinstance(func.value, ast.Name) and func.value.id == receiver and func.attr not in _STARTS_NOTHING
    return func.attr == "__init__" or own or any(isinstance(a, ast.Name) and a.id == receiver for a in call.args)
