"""What wrappers put before the names of weights: which dictionaries have it, and which models ask for it."""

from __future__ import annotations

import ast

from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest, source
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import Origin, origins, returns
from mlcheck.lint.sites.scopes import Context

_WRAPPERS = {
    "torch.nn.DataParallel": "module.",
    "torch.nn.parallel.DistributedDataParallel": "module.",
    "torch.compile": "_orig_mod.",
}
_DEPTH = 3
_SAME = ("cuda", "to", "cpu", "train", "eval", "float", "half")


def prefix_of(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> str | None:
    """What stands before the names of a model's weights: "" for one that nothing wraps, None where it is not known."""
    if isinstance(node, ast.Attribute) and f"{node.attr}." in _WRAPPERS.values():
        return "" if prefix_of(file, node.value, context, depth) == f"{node.attr}." else None
    made, where = source(file, node, context)
    if isinstance(made, ast.Attribute) and (held := file.held(made, where)) is not None:
        made, where = held
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _SAME:
        made, where = source(file, made.func.value, where)
    if not isinstance(made, ast.Call):
        return None
    named = file.resolve(made.func, where)
    if isinstance(named, Function):
        answers = {prefix_of(named.file, each, named.inner, depth - 1) for each in returns(named)} if depth else {None}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(named, Class):
        return "" if any(canonical(base).startswith("torch.nn.") for base in named.libraries) else None
    name = canonical(named) if isinstance(named, str) else ""
    return _WRAPPERS.get(name, "" if name.startswith("torch.nn.") else None)


def unmoved(node: ast.expr) -> ast.expr:
    """`net` of `net.to(device).eval()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        node = node.func.value
    return node


def prefixed(file: File, node: ast.expr, context: Context) -> bool | None:
    """Whether `module.` stands before every name of a state dict: put there, or taken away; else None."""
    made, where = source(file, node, context)
    if isinstance(made, ast.DictComp):
        return _renamed(made.key)
    if isinstance(made, ast.Call) and file.called(made, where) == "collections.OrderedDict" and len(made.args) == 1:
        pairs = made.args[0]
        if isinstance(pairs, ast.GeneratorExp | ast.ListComp) and isinstance(pairs.elt, ast.Tuple):
            return _renamed(pairs.elt.elts[0])
    if isinstance(node, ast.Name) and (found := latest(file, node, context)) is not None:
        return _filled(file, node, context) if _is_empty(made) else _stripped(file, node, found.node, context)
    return None


def _is_empty(node: ast.expr) -> bool:
    empty = isinstance(node, ast.Call) and not node.args and not node.keywords
    return (isinstance(node, ast.Dict) and not node.keys) or empty


def _filled(file: File, name: ast.Name, context: Context) -> bool | None:
    """`renamed[key.replace("module.", "")] = value`, and nothing else."""
    found = [node for node, where in file.walk.mutations.get(name.id, ()) if where.scope is context.scope]
    keys = [node.slice for node in found if isinstance(node, ast.Subscript)]
    if len(keys) != len(found) or len(keys) != 1:
        return None
    key = keys[0]
    for _, where in file.walk.mutations[name.id]:
        key, _ = source(file, key, where)
    return _renamed(key)


def _stripped(file: File, name: ast.Name, made: ast.AST, context: Context) -> bool | None:
    """`consume_prefix_in_state_dict_if_present(state, "module.")` between."""
    for call in file.calls("consume_prefix_in_state_dict_if_present"):
        first = call.node.args[0] if call.node.args else None
        if is_name(first, name.id) and call.context.scope is context.scope:
            if getattr(made, "lineno", 0) < call.node.lineno < name.lineno and call.constant("prefix", 1) == "module.":
                return False
    return None


def _renamed(key: ast.expr) -> bool | None:
    """`"module." + k` and `f"module.{k}"`; `k.replace("module.", "")`, `k.removeprefix("module.")`, `k[7:]`."""
    match key:
        case ast.BinOp(left=ast.Constant(value="module."), op=ast.Add(), right=ast.Name()):
            return True
        case ast.JoinedStr(values=[ast.Constant(value="module."), ast.FormattedValue()]):
            return True
        case ast.Call(
            func=ast.Attribute(attr="replace"), args=[ast.Constant(value="module."), ast.Constant(value=""), *_]
        ):
            return False
        case ast.Call(func=ast.Attribute(attr="removeprefix" | "lstrip"), args=[ast.Constant(value="module.")]):
            return False
        case ast.Subscript(slice=ast.Slice(lower=ast.Constant(value=7), upper=None, step=None)):
            return False
        case ast.Subscript(
            slice=ast.Slice(lower=ast.Call(func=ast.Name(id="len"), args=[ast.Constant(value="module.")]))
        ):
            return False
    return None


def saved_with_prefix(file: File, node: ast.expr, context: Context) -> tuple[Origin, str] | None:
    """The `torch.save(parallel.state_dict(), "net.pt")` behind a `torch.load("net.pt")`, and the prefix it writes."""
    saved = saved_model(file, node, context)
    around = prefix_of(saved[1].file, saved[1].node, saved[1].context) if saved is not None else ""
    return (saved[0], around) if saved is not None and around else None


def saved_model(file: File, node: ast.expr, context: Context) -> tuple[Origin, Origin] | None:
    """The `torch.save(model.state_dict(), "net.pt")` behind a `torch.load("net.pt")`, and the model. There is only one.

    Both may name an entry: `torch.save({"model": parallel.state_dict()}, path)`, and `torch.load(path)["model"]`.
    """
    made, where = source(file, node, context)
    key = made.slice.value if isinstance(made, ast.Subscript) and isinstance(made.slice, ast.Constant) else None
    if isinstance(made, ast.Subscript):
        made, where = source(file, made.value, where)
    if file.called(made, where) != "torch.load" or not isinstance(made, ast.Call) or not made.args:
        return None
    path = _path(file, made.args[0], where)
    saves = list(file.sites.calls("torch.save")) if path else []
    found = [call for call in saves if _path(call.file, call.argument("f", 1), call.context) == path]
    if len(found) != 1 or (isinstance(path, frozenset) and len(saves) > 1):
        return None
    saved: Call = found[0]
    state, inner = saved.argument("obj", 0), saved.context
    if isinstance(key, str) and state is not None:
        state, inner = source(saved.file, state, inner)
        state = saved.file.item_of(state, inner, key)
    if not isinstance(state, ast.Call) or not isinstance(state.func, ast.Attribute) or state.func.attr != "state_dict":
        return None
    return Origin(saved.file, saved.node, saved.context), Origin(saved.file, state.func.value, inner)


def _path(file: File, node: ast.expr | None, context: Context) -> str | frozenset[str] | None:
    """The name of a file; where it is no constant, in the words of whoever gives it: `args.checkpoint`."""
    constant = file.constant(node, context)
    if isinstance(constant, str) or node is None:
        return constant if isinstance(constant, str) else None
    found = origins(file, node, context)
    written = {each.file.constant(each.node, each.context) for each in found}
    only = written.pop() if len(written) == 1 else None
    if isinstance(only, str):  # of each call of the function
        return only
    asked = [ast.unparse(each.node) for each in found if isinstance(each.node, ast.Attribute)]
    known = len(asked) == len(found) > 0 and not any(name.startswith("self.") for name in asked)
    return frozenset(asked) if known else None
