"""Names that the program reads from somewhere: `getattr(models, args.arch)`, `models.__dict__[name]`, `eval(...)`.

Which of them it is, nobody knows; any of what the module offers may be meant, where all that is of one kind.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from mlcheck.lint import names
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.nodes import last_name, package_said, walk
from mlcheck.lint.program import ModuleInfo
from mlcheck.lint.python import attributes, elements
from mlcheck.lint.pytorch import modes
from mlcheck.lint.values import Args, Class, Const, External, Function, Kwargs, Module, Object, Params, Value

_FAMILIES = {
    "torch.optim": "torch.optim.Optimizer",
    "torch.optim.lr_scheduler": "torch.optim.lr_scheduler.LRScheduler",
}
"""What all that a library's module offers has in common."""
_OWN_NAMES = "builtins.globals"
_MOST = 8
_DEEPEST = 3


def any_of(m: Machine, namespace: Value, key: Value) -> Value | None:
    """What an unknown name of a module means; None where that may be of several kinds."""
    if isinstance(namespace, External):
        family = _FAMILIES.get(namespace.name)
        return External(family) if family else None
    if not isinstance(namespace, Module) or namespace.name not in m.program.modules:
        return None
    found = [names.module_attribute(m, home, name) for home, name in _offered(m, namespace.name, _DEEPEST)]
    return _one_of(m, found, key)


def _one_of(m: Machine, found: Sequence[Value | None], key: Value) -> Value | None:
    """Any of some classes or functions; None where there are several kinds, or too many."""
    options = [value for value in found if isinstance(value, Class | Function)]
    if not 0 < len(options) == len(found) <= _MOST or len({_kind(value) for value in options}) > 1:
        return None
    return elements.any_of(m, list[Value](options), key)


def _any_below(m: Machine, home: str, key: Value) -> Value:
    """Any file of a package that defines a class by the name that most of its files define: each has its `Net`."""
    package = m.program.resolve(home, m.program.name_of(m.frame.module)) or home
    inside = [name for name in m.program.modules if name.rpartition(".")[0] == package]
    defined = {name: _classes(m.program.modules[name]) for name in inside}
    counted = Counter(each for those in defined.values() for each in those)
    common = max(counted, key=lambda each: counted[each], default="")
    options = [name for name, those in defined.items() if common in those]
    if not 1 < len(options) <= _MOST:
        return m.symbol()
    return elements.any_of(m, [Module(name) for name in options], key)


def _classes(module: ModuleInfo) -> set[str]:
    return {node.name for node in module.source.tree.body if isinstance(node, ast.ClassDef)}


def _kind(value: Class | Function) -> str:
    if isinstance(value, Function):
        return "function"
    return "module" if modes.is_module_type(value.info) else value.info.qualname


def _offered(m: Machine, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """The public functions and classes of a module that it uses itself nowhere; a package's also those of its files."""
    module = m.program.modules[name]
    used = {node.id for node in walk(module.source.tree) if isinstance(node, ast.Name)}
    for node in module.source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not node.name.startswith("_") and node.name not in used:
                yield name, node.name
        elif isinstance(node, ast.ImportFrom) and node.level and module.source.package:
            yield from _handed_on(m, module, node, used, depth)


def _handed_on(
    m: Machine, module: ModuleInfo, node: ast.ImportFrom, used: set[str], depth: int
) -> Iterator[tuple[str, str]]:
    home = m.program.relative(module, node.level, node.module)
    for alias in node.names:
        bound = alias.asname or alias.name
        if alias.name == "*" and depth and home in m.program.modules:
            yield from _offered(m, home, depth - 1)
        elif alias.name != "*" and f"{home}.{alias.name}" not in m.program.modules and bound not in used:
            yield m.program.name_of(module), bound


def _getattr(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) >= 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        return attributes.get(m, args[0], args[1].value, node)
    if len(args) == 2 and isinstance(node, ast.Call) and ast.unparse(node.args[0]) == "sys.modules[__name__]":
        return _named_nowhere(m, args[1]) or m.symbol()
    if len(args) == 2 or (args and isinstance(args[0], External)):
        return any_of(m, args[0], args[-1]) or m.symbol()
    return m.symbol()


def _setattr(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if len(args) == 3 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        attributes.put(m, args[0], args[1].value, args[2], node)
    elif len(args) == 3 and isinstance(args[0], Object) and modes.is_module(args[0]):
        attributes.put(m, args[0], f"?{m.fresh()}", args[2], node)  # `setattr(self, f"block{i}", ...)`
    return Const(None)


def _eval(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`eval("optim." + args.optim)`, `eval(f"models.{name}")`; `eval(args.model)`, which names what is imported."""
    said = node.args[0] if isinstance(node, ast.Call) and node.args else None
    home = package_said(said)
    if said is not None and home:
        owner = m.evaluate(ast.copy_location(ast.parse(home, mode="eval").body, said))
        return any_of(m, owner, args[0]) or m.symbol()
    if isinstance(said, ast.Name | ast.Attribute | ast.Subscript) and not isinstance(args[0], Const):
        return _named_nowhere(m, args[0]) or m.symbol()
    return m.symbol()


def _named_nowhere(m: Machine, key: Value) -> Value | None:
    """The models that a module defines or imports, and calls nowhere: they are there to be asked for by their name."""
    module, here = m.frame.module, m.program.name_of(m.frame.module)
    used = {node.id for node in walk(module.source.tree) if isinstance(node, ast.Name)}
    offered: list[tuple[str, str]] = []
    for node in module.source.tree.body:
        if isinstance(node, ast.ClassDef):
            offered.append((here, node.name))
        elif isinstance(node, ast.ImportFrom):
            told = m.program.relative(module, node.level, node.module) if node.level else node.module or ""
            home = told if told in m.program.modules else m.program.resolve(told, here)
            for alias in node.names if home in m.program.modules else ():
                whole = alias.name == "*" and home is not None
                offered += _offered(m, str(home), _DEEPEST) if whole else [(here, alias.asname or alias.name)]
    found = [names.module_attribute(m, home, name) for home, name in offered if name not in used]
    return _one_of(m, [each for each in found if isinstance(each, Class) and _kind(each) == "module"], key)


def _import_module(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    name = args[0].value if args and isinstance(args[0], Const) else None
    if not isinstance(name, str):
        home = package_said(node.args[0]) if isinstance(node, ast.Call) and node.args else ""
        return _any_below(m, home, args[0]) if home else m.symbol()
    if not name or name.startswith("."):
        return m.symbol()
    found = m.program.resolve(name, m.program.name_of(m.frame.module))
    known = name.partition(".")[0] in ("torch", "torchvision")
    return Module(found) if found else External(names.canonical(name)) if known else m.symbol()


def _instantiate(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`instantiate(cfg.optim, params=model.parameters())`: whatever the file names, it is given parameters to train."""
    params = kwargs.get("params", args[1] if len(args) > 1 else None)
    asked = node.args[0] if isinstance(node, ast.Call) and node.args else None
    groups = "params" in kwargs and not isinstance(params, Params) and "optim" in last_name(asked).lower()
    if params is not None and (groups or (isinstance(params, Params) and not params.one)):
        return m.call(External("torch.optim.Optimizer"), [params], {}, node)
    m.havoc([*args, *kwargs.values()])
    return m.symbol()


def _globals(m: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Object(_OWN_NAMES, m.fresh(), None)


HANDLERS: dict[str, Callable[[Machine, Args, Kwargs, ast.AST], Value]] = {
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.eval": _eval,
    "importlib.import_module": _import_module,
    "hydra.utils.instantiate": _instantiate,
    "builtins.globals": _globals,
}


def entry(m: Machine, view: Value, key: Value, node: ast.AST) -> Value | None:
    """`models.__dict__[name]`, `globals()[name]`."""
    if isinstance(view, Object) and view.type == _OWN_NAMES and not isinstance(key, Const):
        return _named_nowhere(m, key)
    if not isinstance(view, Object) or view.type != attributes.NAMESPACE:
        return None
    if isinstance(key, Const) and isinstance(key.value, str):
        return attributes.get(m, view.args[0], key.value, node)
    return any_of(m, view.args[0], key)
