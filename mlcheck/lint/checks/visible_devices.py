"""visible-devices: CUDA_VISIBLE_DEVICES is set where it has no effect."""

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Class, Context, File, Function, Named, ProjectModule

LOOKS_AT = "environment variable"
WORDS = ("CUDA", "VISIBLE")
_KEY = "CUDA_VISIBLE_DEVICES"
_NEARLY = pattern(r"^CUDA_?VIS[A-Z_]*$|^VISIBLE_CUDA[A-Z_]*$|^CUDA_DEVICES_VISIBLE$")
_ASKS = frozenset(["is_available", "device_count", "get_device_name", "current_device", "set_device", "init"])
_COUNTS = ("is_available", "device_count", "get_device_name", "get_device_properties", "current_device", "init")
_ASKS |= {"get_device_properties", "manual_seed_all", "empty_cache", "get_device_capability"}


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["CUDA", "VISIBLE"]):
        for node, context, value in _environment(file):
            facts.sites.seen[LOOKS_AT] += 1
            if value == _KEY:
                yield from _renumbered(file, node, context)
                used = _used_before(file, node, context) or _asked_by_import(file, node, context)
                if used is not None:
                    yield Finding(
                        f"`{_KEY}` is set after CUDA was asked: the choice may be ignored",
                        file.place(node, context).location,
                        help="set it before torch is first used, or outside of the program",
                        related=(file.place(used, context).location,),
                    )
            elif _NEARLY.match(value):
                yield Finding(
                    f"`{value}` means nothing to CUDA: all GPUs stay visible",
                    file.place(node, context).location,
                    help=f"the name is `{_KEY}`",
                )


def _environment(file: File) -> Iterator[tuple[ast.AST, Context, str]]:
    """Where an environment variable is set: the node, its context, the variable's name."""
    for node, context in file.walk.subscripts:
        if isinstance(node.value, ast.Attribute | ast.Name) and file.resolve(node.value, context) == "os.environ":
            yield from _named(node, context, file)
    for call in file.calls("setdefault", "putenv"):
        if file.resolve(call.node.func, call.context) in ("os.environ.setdefault", "os.putenv") and call.node.args:
            key = call.node.args[0]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield call.node, call.context, key.value


def _named(node: ast.AST, context: Context, file: File) -> Iterator[tuple[ast.AST, Context, str]]:
    if isinstance(node, ast.Subscript):
        key = file.constant(node.slice, context)
        if isinstance(key, str):
            yield node, context, key


def _used_before(file: File, node: ast.AST, context: Context) -> ast.AST | None:
    """A question about CUDA above it, in the same function or at the top level that surely ran before."""
    line = getattr(node, "lineno", 0)
    around = {id(outer.node): outer.arm for outer in context.outwards()}
    for call in file.calls(*sorted(_ASKS)):
        named = file.resolve(call.node.func, call.context)
        if not isinstance(named, str) or not named.startswith("torch.cuda.") or call.node.lineno >= line:
            continue
        if all(around.get(id(outer.node)) == outer.arm for outer in call.context.outwards()):
            return call.node
    return None


def _asked_by_import(file: File, node: ast.AST, context: Context) -> ast.AST | None:
    """An import above it of a file of the project whose top level asks CUDA."""
    for name, bindings in file.walk.module.scope.bindings.items():
        for binding in bindings:
            above = getattr(binding.node, "lineno", 0) < getattr(node, "lineno", 0)
            if binding.kind not in ("import", "from") or binding.context.kind != "module" or not above:
                continue
            found = file.meaning(binding)
            source = _file_of(file, name, found)
            if source is not None and source is not file and _asks_at_top(source):
                return binding.node
    return None


def _file_of(file: File, name: str, found: Named) -> File | None:
    if isinstance(found, ProjectModule):
        return file.sites.files.get(found.name)
    if isinstance(found, Class | Function):
        return found.file
    variable = next((b for b in file.walk.module.scope.bindings[name] if b.kind == "from"), None)
    held = file.sites.variable(file, variable) if variable is not None else None
    return held[0] if held is not None else None


def _asks_at_top(file: File) -> bool:
    """Whether importing it makes CUDA count the devices."""
    for call in file.calls(*_COUNTS):
        named = file.resolve(call.node.func, call.context)
        if isinstance(named, str) and named.startswith("torch.cuda.") and call.context.kind == "module":
            return True
    return False


def _renumbered(file: File, node: ast.AST, context: Context) -> Iterator[Finding]:
    """`"cuda:2"` where GPU 2 is the only visible one: it is `cuda:0` from then on."""
    chosen = next(
        (each.value for each in walk(_scope(file, context)) if isinstance(each, ast.Assign) and node in each.targets),
        None,
    )
    if isinstance(chosen, ast.Call) and isinstance(chosen.func, ast.Name) and chosen.func.id == "str" and chosen.args:
        chosen = chosen.args[0]
    elif isinstance(chosen, ast.JoinedStr) and len(chosen.values) == 1:
        chosen = chosen.values[0].value if isinstance(chosen.values[0], ast.FormattedValue) else None
    else:
        return
    nodes, line = walk(_scope(file, context)), getattr(node, "lineno", 0)
    if chosen is None or any(_sets(other, ast.unparse(chosen)) and other.lineno > line for other in nodes):
        return
    for other in nodes:
        if not isinstance(other, ast.JoinedStr) or len(other.values) != 2 or other.lineno < line:
            continue
        first, index = other.values
        if isinstance(first, ast.Constant) and first.value == "cuda:" and isinstance(index, ast.FormattedValue):
            if ast.unparse(index.value) == ast.unparse(chosen):
                yield Finding(
                    f"`{ast.unparse(other)[2:-1]}` is not that GPU: the visible ones are counted anew, from 0",
                    file.place(other, context).location,
                    help="use `cuda:0`, or leave `CUDA_VISIBLE_DEVICES` alone",
                    related=(file.place(node, context).location,),
                )


def _sets(node: ast.AST, written: str) -> TypeGuard[ast.expr]:
    """Whether the variable or attribute is assigned here."""
    return (
        isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node) == written
    )


def _scope(file: File, context: Context) -> ast.AST:
    function = file.function_around(context)
    return function.node if function is not None else file.module.source.tree
