"""A distributed model that a function gets, and whose inside it calls: `head.module.predict(x)` for the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from mlcheck.lint.facts import Place
from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.origins import Origin, callers, origins, returns
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.ranks import DDP
from mlcheck.lint.sites.scopes import Binding

_ASKED = ("hasattr", "isinstance", "getattr")
_WITHOUT_GRADIENT = ("no_grad", "inference_mode", "set_grad_enabled", "no_sync")


class Bypassed(NamedTuple):
    """The call past the wrapper, what it calls, the name of the wrapper there, and where that was made."""

    place: Place
    called: str
    name: str
    wrap: Place


def bypassed(sites: Sites) -> Iterator[Bypassed]:
    """Calls inside a wrapper that was handed over, in training, where nobody calls the wrapper itself."""
    files = list(sites.mentioning([".module"]))
    opening = [each for file in files for each in file.functions if _opened(each) or _kept_inside(each) is not None]
    words = [".module", *(f"{each.name}{'' if _is_property(each) else '('}" for each in opening)]
    for file in sites.mentioning(words):
        if "all_reduce" in file.text and ".grad" in file.text:
            continue  # which may average the gradients by hand
        for function in file.functions:
            if not any(word in function.text for word in words):
                continue
            for node in function.nodes:
                owner = _inside(node) or _inside_by_name(function, node) or _inside_by_method(function, node)
                if owner is None or not isinstance(node, ast.Call) or not node.args:
                    continue
                known = _is_given(function, owner) or (_inside(node) is None and _is_wrapped_by_object(function, owner))
                if not known or _is_without_gradient(function, node):
                    continue
                wraps, name = origins(file, owner, function.inner), ast.unparse(owner)
                found = _bypassed_of(wraps, node, name, _is_chosen(function, node.func))
                if found and _is_trained(function, owner, wraps):
                    made = found[0]
                    where = made.file.place(made.node, made.context)
                    yield Bypassed(function.place(node), ast.unparse(node.func), name, where)


def _is_given(function: Function, owner: ast.expr) -> bool:
    """Whether it is a parameter, or what the object keeps of one of its constructor, and hands on to nobody."""
    if isinstance(owner, ast.Name):
        return owner.id in function.parameters
    name = own_attribute(owner, function)
    sets = function.cls.attribute(name) if function.cls is not None and name else []
    value = sets[0][1].value if len(sets) == 1 else None
    if function.cls is None or not isinstance(value, ast.Name) or value.id not in sets[0][0].parameters:
        return False
    given = list[ast.expr | None]()
    for node in walk(function.cls.node):
        given += node.args if isinstance(node, ast.Call) and last_name(node.func) not in _ASKED else []
        given += [node.value] if isinstance(node, ast.Assign | ast.Return | ast.keyword) else []
    return not any(part is not None and ast.unparse(part) == ast.unparse(owner) for part in given)


def _is_wrapped_by_object(function: Function, owner: ast.expr) -> bool:
    """`self.ddp = DistributedDataParallel(net)`, once."""
    name = own_attribute(owner, function)
    sets = function.cls.attribute(name) if function.cls is not None and name else []
    return len(sets) == 1 and canonical(sets[0][0].file.called(sets[0][1].value, sets[0][1].context)) == DDP


def _is_without_gradient(function: Function, call: ast.AST) -> bool:
    """Whether a call belongs to an evaluation, or runs beside the exchange of gradients."""
    around = [node for node in function.nodes if isinstance(node, ast.With) and call in walk(node)]
    heads = [*function.node.decorator_list, *(item.context_expr for node in around for item in node.items)]
    named = any(word in ast.unparse(head) for head in heads for word in _WITHOUT_GRADIENT)
    return named or (".eval()" in function.text and ".backward(" not in function.text)


def _inside(node: ast.AST) -> ast.expr | None:
    """`head` of `head.module(x)` and `head.module.predict(x)`, and `self.head` likewise."""
    func = node.func if isinstance(node, ast.Call) else None
    for inner in (func, func.value if isinstance(func, ast.Attribute) else None):
        match inner:
            case ast.Attribute(value=ast.Name() | ast.Attribute(value=ast.Name()) as owner, attr="module"):
                return owner
    return None


def _inside_by_name(function: Function, node: ast.AST) -> ast.expr | None:
    """`head` of `inner(x)` and `inner.predict(x)`, where `inner = head.module`, or what `unwrap(head)` gives."""
    func = node.func if isinstance(node, ast.Call) else None
    called = func.value if isinstance(func, ast.Attribute) else func
    if not isinstance(called, ast.Name):
        return None
    bound = function.file.bindings(called.id, function.inner)
    if (owner := _inside_where_wrapped(bound)) is not None:
        return owner
    match bound[0].value if len(bound) == 1 and bound[0].kind == "value" else None:
        case ast.Attribute(value=ast.Name() | ast.Attribute(value=ast.Name()) as owner, attr="module"):
            return owner
        case ast.Call(func=opener, args=[ast.Name() | ast.Attribute(value=ast.Name()) as owner], keywords=[]):
            named = function.file.resolve(opener, function.inner)
            return owner if isinstance(named, Function) and _opened(named) else None
    return None


def _inside_where_wrapped(bound: list[Binding]) -> ast.expr | None:
    """`head` of `inner = head.module` under a test, and `inner = head` in its other branch, or both in one line."""
    values = [each.value for each in bound if each.kind == "value"]
    if len(values) == len(bound) == 1 and isinstance(values[0], ast.IfExp):
        values = [values[0].body, values[0].orelse]
    inner = [each for each in values if isinstance(each, ast.Attribute) and each.attr == "module"]
    outer = [each for each in values if isinstance(each, ast.Name | ast.Attribute) and each not in inner]
    alike = len(values) == 2 and len(inner) == 1 and [ast.unparse(inner[0].value)] == [*map(ast.unparse, outer)]
    return inner[0].value if alike else None


def _inside_by_method(function: Function, node: ast.AST) -> ast.expr | None:
    """`self.model` of `self.unwrap().loss(x)`, of `net.loss(x)` where `net = self.unwrap()`, and of a property."""
    func = node.func if isinstance(node, ast.Call) else None
    called = func.value if isinstance(func, ast.Attribute) else func
    if isinstance(called, ast.Name):
        bound = function.file.bindings(called.id, function.inner)
        value = bound[0].value if len(bound) == 1 and bound[0].kind == "value" else None
        called = value if isinstance(value, ast.expr) else None
    if isinstance(called, ast.Attribute) and function.cls is not None:
        kept = function.cls.find(own_attribute(called, function))
        return _kept_inside(kept) if kept is not None and _is_property(kept) else None
    if not isinstance(called, ast.Call) or called.args or called.keywords:
        return None
    named = function.file.resolve(called.func, function.inner)
    return _kept_inside(named) if isinstance(named, Function) and named.cls is function.cls else None


def _is_property(function: Function) -> bool:
    return any(is_name(each, "property") for each in function.node.decorator_list)


def _kept_inside(function: Function) -> ast.expr | None:
    """`self.model` of a method that returns `self.model.module`, or `self.model` where it has none."""
    arms = _arms(function) if function.receiver and len(function.parameters) == 1 else []
    inner = [arm.value for arm in arms if isinstance(arm, ast.Attribute) and arm.attr == "module"]
    owner = inner[0] if len(inner) == 1 and own_attribute(inner[0], function) else None
    if owner is None or {ast.unparse(arm) for arm in arms} - {ast.unparse(owner), f"{ast.unparse(owner)}.module"}:
        return None
    return owner


def _opened(function: Function) -> bool:
    """Whether it returns what is inside its argument: `net.module if hasattr(net, "module") else net`."""
    names, arms = list(function.parameters), {ast.unparse(arm) for arm in _arms(function)}
    return len(names) == 1 and f"{names[0]}.module" in arms and arms <= {f"{names[0]}.module", names[0]}


def _arms(function: Function) -> list[ast.expr]:
    """What it may return; nothing where that is more than a choice of two."""
    found = list(returns(function))
    if not 1 <= len(found) <= 2:
        return []
    return [arm for each in found for arm in ([each.body, each.orelse] if isinstance(each, ast.IfExp) else [each])]


def _is_chosen(function: Function, called: ast.expr) -> bool:
    """`inner`, which is what is inside the wrapper if there is one, and else the model itself."""
    bound = function.file.bindings(called.id, function.inner) if isinstance(called, ast.Name) else []
    return _inside_where_wrapped(bound) is not None


def _bypassed_of(wraps: list[Origin], call: ast.Call, name: str, chosen: bool) -> list[Origin]:
    """The wrappers that are called past. Of several models only a wrapper has a `module` to be called by itself."""
    if chosen or ast.unparse(call.func) == f"{name}.module":
        return [wrap for wrap in wraps if canonical(wrap.name) == DDP and isinstance(wrap.node, ast.Call)]
    return wraps if all(_is_bypass(wrap, call, name) for wrap in wraps) else []


def _is_bypass(wrap: Origin, call: ast.Call, name: str) -> bool:
    """Whether the wrapper is certain, and what is called inside it runs layers that it has."""
    if canonical(wrap.name) != DDP or not isinstance(wrap.node, ast.Call):
        return False
    whole = isinstance(call.func, ast.Name) or ast.unparse(call.func) == f"{name}.module"
    method = "forward" if whole else last_name(call.func)
    inner = Call(wrap.file, wrap.node, wrap.context).argument("module", 0)
    made = origins(wrap.file, _unmoved(inner), wrap.context) if inner is not None else []
    classes = {each.file.resolve(each.node.func, each.context) for each in made if isinstance(each.node, ast.Call)}
    known = [cls for cls in classes if isinstance(cls, Class)]
    if whole and not known:
        return True  # the wrapper refuses a module without parameters to train
    return len(made) == 1 and len(known) == len(classes) and all(_runs_layers(cls, method) for cls in known)


def _unmoved(node: ast.expr) -> ast.expr:
    """`net` of `net.to(device)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
        node = node.func.value
    return node


def _runs_layers(cls: Class, name: str) -> bool:
    method = cls.find(name)
    if method is not None and name != "forward":
        calls = (node.func for node in method.nodes if isinstance(node, ast.Call))
        if any(is_name(func, method.receiver) for func in calls) and _runs_layers(cls, "forward"):
            return True
    for node in method.nodes if method is not None else ():
        sets = cls.attribute(own_attribute(node.func, method)) if isinstance(node, ast.Call) else []
        made = sets[0][1].value if len(sets) == 1 else None
        if made is not None and holds_parameters(sets[0][0].file, made, sets[0][1].context):
            return True
    return False


def _is_trained(function: Function, owner: ast.expr, wraps: list[Origin]) -> bool:
    """Whether a gradient is asked for by the function or by who calls it, and nobody calls the wrapper itself."""
    above = list(callers(function.file.sites, function))
    around = [function, *(call.function for call in above if call.function is not None)]
    texts = [each.text for each in around]
    name = ast.unparse(owner)
    called = [*function.file.calls(last_name(owner))]
    for wrap in wraps:
        called += wrap.file.calls(*wrap.file.names_given(wrap.node))
    owners = {name, *(given for wrap in wraps for given in wrap.file.names_given(wrap.node))}
    itself = any(
        ast.unparse(call.node.func) in owners and not (call.function and _is_without_gradient(call.function, call.node))
        for call in called
    )
    return not itself and any(".backward(" in text for text in texts)
