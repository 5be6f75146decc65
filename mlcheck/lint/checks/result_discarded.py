"""result-discarded: a method that returns a new tensor is called as a statement, so nothing comes of it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call, Sites
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.straight import read_after

LOOKS_AT = "tensor method"
_METHODS = (
    *("masked_fill", "masked_scatter", "index_fill", "index_add", "index_copy", "scatter_add"),
    *("clamp", "clamp_min", "clamp_max", "nan_to_num", "detach"),
)
_OF_WEIGHTS = ("add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv", "clamp", "clip", "copysign")
_FUNCTIONS = (
    *("torch.clamp", "torch.masked_fill", "torch.nan_to_num", "torch.relu"),
    *(f"torch.nn.functional.{name}" for name in ("dropout", "normalize", "relu")),
)
_RAISES = ("raises", "assertRaises", "suppress", "assertRaisesRegex")


def check(facts: Facts) -> Iterator[Finding]:
    sites, seen = facts.sites, 0
    wanted = {*_METHODS, *_OF_WEIGHTS, "dropout", "normalize", "relu"}
    for file in sites.mentioning([f".{name}(" for name in sorted(wanted)]):
        for call in file.calls(*sorted(wanted)) if "torch" in file.text else ():
            if call.node not in file.statements or _is_to_raise(call):
                continue
            seen += 1
            what = _changed(call)
            if what is not None:
                yield Finding(
                    f"`{ast.unparse(call.node.func)}(...)` returns a new tensor, and this line drops it: "
                    f"`{ast.unparse(what)}` stays what it was",
                    call.place.location,
                    help=_how(call, what),
                )
    sites.seen[LOOKS_AT] = seen


def _own_methods(sites: Sites) -> frozenset[str]:
    """The names of all methods of the project."""
    functions = (function for file in sites.files.values() for function in file.functions)
    return frozenset(function.name for function in functions if function.cls is not None)


def _changed(call: Call) -> ast.expr | None:
    """What the line is to change and does not."""
    func = call.node.func
    named = call.file.resolve(func, call.context)
    if any(keyword.arg in ("out", "inplace", None) for keyword in call.node.keywords):
        return None
    if isinstance(named, str):
        given = call.node.args[0] if call.node.args else None
        is_plain = named in _FUNCTIONS and len(call.node.args) < 4
        return given if is_plain and isinstance(given, ast.Name) and _is_read(call, given.id) else None
    if named is not None or not isinstance(func, ast.Attribute):
        return None
    owner = func.value
    if isinstance(owner, ast.Attribute) and owner.attr in ("data", "grad") and func.attr in _OF_WEIGHTS:
        return owner if _is_weight(call, owner) else None
    if func.attr not in _METHODS or not isinstance(owner, ast.Name):
        return None
    if (func.attr == "detach") != (not call.node.args and not call.node.keywords):
        return None
    if not _is_read(call, owner.id) or not _may_be_tensor(call, owner):
        return None
    return None if func.attr in call.file.sites.once(_own_methods) else owner


def _is_weight(call: Call, owner: ast.Attribute) -> bool:
    """`p.data` and `p.grad`, where `p` runs over parameters."""
    if not isinstance(owner.value, ast.Name):
        return False
    bound = call.file.bindings(owner.value.id, call.context)
    loops = [b for b in bound if b.kind in ("loop", "item") and b.value is not None]
    return (
        bool(loops)
        and len(loops) == len(bound)
        and all("parameters()" in ast.unparse(b.value) for b in loops if b.value)
    )


def _is_read(call: Call, name: str) -> bool:
    return call.function is not None and read_after(call.function.node, call.node, name) is not None


def _may_be_tensor(call: Call, owner: ast.Name) -> bool:
    """Whether the name holds what an expression or a call came to; a parameter of any kind may change in place."""
    found = latest(call.file, owner, call.context)
    if found is None or found.value is None:
        return call.node.func.attr != "detach" if isinstance(call.node.func, ast.Attribute) else False
    made = call.file.resolve(found.value.func, found.context) if isinstance(found.value, ast.Call) else None
    return not isinstance(found.value, ast.Call) or made is None or isinstance(made, str)


def _is_to_raise(call: Call) -> bool:
    withs = [outer.node for outer in call.context.outwards() if isinstance(outer.node, ast.With | ast.AsyncWith)]
    return any(word in ast.unparse(item.context_expr) for node in withs for item in node.items for word in _RAISES)


def _how(call: Call, what: ast.expr) -> str:
    func = call.node.func
    if isinstance(call.file.resolve(func, call.context), str) or not isinstance(func, ast.Attribute):
        return f"write `{ast.unparse(what)} = {ast.unparse(call.node)}`"
    given = ", ".join(ast.unparse(part) for part in (*call.node.args, *call.node.keywords))
    return f"write `{ast.unparse(what)}.{func.attr}_({given})`, or bind the result to the name"
