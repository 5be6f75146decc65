"""ddp-bypassed: the model inside DistributedDataParallel is trained past it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import assigned, is_name, last_name, walk
from mlcheck.lint.sites import Call, Context
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.ranks import DDP, names_of_choice
from mlcheck.lint.sites.training.bypassing import bypassed
from mlcheck.lint.sites.training.handing import handed_over
from mlcheck.lint.sites.training.optimizers import around

LOOKS_AT = "distributed model"
WORDS = ("DistributedDataParallel",)
_CUTS = ("detach", "item", "no_grad", "tolist", "numpy")


def check(facts: Facts) -> Iterator[Finding]:
    wraps = list(facts.sites.calls(DDP))
    facts.sites.seen["distributed model"] = len(wraps)
    for found in bypassed(facts.sites) if wraps else ():
        yield Finding(
            f"`{found.called}` is trained past `{found.name}`: its gradients are not averaged over the ranks",
            found.place.location,
            help=f"call `{found.name}(...)`; the model inside it is for saving and loading",
            related=(found.wrap.location,),
        )
    for wrap in wraps:
        for call, name in handed_over(wrap):
            yield Finding(
                f"`{name}` is trained past the wrapper that was made of it: its gradients are not averaged over the "
                "ranks",
                call.place.location,
                help=f"hand over `{' or '.join(wrap.file.names_given(wrap.node))}` in its place",
                related=(wrap.place.location,),
            )
        inner = wrap.argument("module", 0)
        names = _all_names(wrap)
        for name in names_of_choice(wrap):
            for loop in _training(wrap):
                calls = _calls_in(wrap, loop)
                if any(_is(node.func, each) for node in calls for each in names) or _hands_on(calls, name):
                    continue
                for node in calls:
                    raw = _named(inner) not in ("", *names) and _is(node.func, _named(inner))
                    past = _is_inner(node.func, name) or _is_opened(wrap, node.func, name)
                    if (raw or past or _computes_loss(loop, node, name)) and node.args:
                        yield Finding(
                            f"`{ast.unparse(node.func)}` is trained past `{name}`: "
                            "its gradients are not averaged over the ranks",
                            wrap.file.place(node, wrap.context).location,
                            help=f"call `{name}(...)`; the model inside it is for saving and loading",
                            related=(wrap.place.location,),
                        )


def _all_names(wrap: Call) -> set[str]:
    """The names of the wrapper: those it is given, those that get it from them, and properties that return it."""
    names = set(names_of_choice(wrap))
    for node in walk(wrap.cls.node if wrap.cls is not None else around(wrap)):
        if isinstance(node, ast.Assign) and any(_is(node.value, name) for name in names):
            names |= {*map(_named, node.targets)} - {""}
    for method in wrap.cls.methods.values() if wrap.cls is not None else ():
        given = list(returns(method)) if any(is_name(each, "property") for each in method.node.decorator_list) else []
        if len(given) == 1 and any(_is(given[0], name) for name in names):
            names.add(method.name)
    return names


def _calls_in(wrap: Call, loop: ast.AST) -> list[ast.Call]:
    """The calls in a loop, and in the methods of the object that it calls there."""
    calls = [node for node in walk(loop) if isinstance(node, ast.Call)]
    methods = wrap.cls.methods if wrap.cls is not None and wrap.file is wrap.cls.file else {}
    for node in calls:
        method = methods.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        if method is not None and isinstance(node.func, ast.Attribute) and _is(node.func, method.name):
            calls += [inner for inner in method.nodes if isinstance(inner, ast.Call) and inner not in calls]
    return calls


def _named(node: ast.expr | None) -> str:
    """`model` of `model` and of `self.model`."""
    if isinstance(node, ast.Attribute) and is_name(node.value, "self"):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _training(wrap: Call) -> list[ast.AST]:
    """The outermost loops in the same function (or class), or the methods without one, that call `backward`."""
    found: list[ast.AST] = []
    for call in wrap.file.calls("backward"):
        same = call.function is wrap.function or (wrap.cls is not None and call.cls is wrap.cls)
        same = same or (wrap.function is not None and _stands_in(call.context, wrap.function.node))
        if same and not _without_gradient(call.context) and (call.loops or call.function is not wrap.function):
            loop = call.loops[0].node if call.loops else call.function.node if call.function is not None else wrap.node
            if loop not in found:
                found.append(loop)
    return found


def _stands_in(context: Context, function: ast.AST) -> bool:
    """Whether a closure stands in the function."""
    return any(outer.node is function for outer in context.outwards())


def _without_gradient(context: Context) -> bool:
    return any(
        isinstance(outer.node, ast.With) and "no_grad" in ast.unparse(outer.node.items[0].context_expr)
        for outer in context.outwards()
    )


def _is(node: ast.expr, name: str) -> bool:
    """`name` or `self.name`."""
    if isinstance(node, ast.Attribute):
        return node.attr == name and is_name(node.value, "self")
    return is_name(node, name)


def _is_inner(node: ast.expr, name: str) -> bool:
    """`name.module`."""
    return isinstance(node, ast.Attribute) and node.attr == "module" and _is(node.value, name)


def _is_opened(wrap: Call, node: ast.expr, name: str) -> bool:
    """`inner` of `inner = self.unwrap()`, a method that returns `self.name.module`, if not `self.name`."""
    methods = wrap.cls.methods if wrap.cls is not None and isinstance(node, ast.Name) else {}
    method = next((each for each in methods.values() if any(node is part for part in each.nodes)), None)
    made = wrap.file.value(node, method.inner)[0] if method is not None else node
    if not isinstance(made, ast.Call) or made.args or not isinstance(made.func, ast.Attribute):
        return (made is not node and _is_inner(made, name)) or _is_property(wrap, made, name)
    opener = methods.get(made.func.attr) if is_name(made.func.value, "self") else None
    found = list(returns(opener)) if opener is not None else []
    arms = [arm for each in found for arm in ([each.body, each.orelse] if isinstance(each, ast.IfExp) else [each])]
    return any(_is_inner(arm, name) for arm in arms) and all(_is_inner(arm, name) or _is(arm, name) for arm in arms)


def _is_property(wrap: Call, node: ast.expr, name: str) -> bool:
    """`self.net`, a property that returns `self.name.module` and nothing else."""
    own = isinstance(node, ast.Attribute) and is_name(node.value, "self") and wrap.cls is not None
    method = wrap.cls.find(node.attr) if own and wrap.cls is not None and isinstance(node, ast.Attribute) else None
    if method is None or not any(is_name(each, "property") for each in method.node.decorator_list):
        return False
    found = list(returns(method))
    return len(found) == 1 and _is_inner(found[0], name)


def _computes_loss(loop: ast.AST, call: ast.Call, name: str) -> bool:
    """`loss = name.module.method(...)`, or a loss computed of that in one line, where `loss.backward()` follows."""
    func = call.func
    if not isinstance(func, ast.Attribute) or not _is_inner(func.value, name):
        return False
    given: set[str] = set()
    for node in sorted((n for n in walk(loop) if isinstance(n, ast.Assign | ast.Attribute)), key=_line):
        if isinstance(node, ast.Attribute) and node.attr == "backward" and _leads_to(node.value, call):
            return True
        for target, value in assigned(node) if isinstance(node, ast.Assign) else ():
            if _leads_to(value, call) or _carries(value, given):
                parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                given |= {part.id for part in parts if isinstance(part, ast.Name)}
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "backward"
        and isinstance(node.value, ast.Name)
        and node.value.id in given
        for node in walk(loop)
    )


def _leads_to(node: ast.expr, call: ast.Call) -> bool:
    """Whether the call is the value, or what that is computed of: `criterion(call, y).mean()`."""
    if isinstance(node, ast.Subscript):
        return _leads_to(node.value, call)
    if not isinstance(node, ast.Call) or node is call:
        return node is call
    owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return last_name(node.func) not in _CUTS and any(_leads_to(part, call) for part in (*node.args[:1], *owner))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _carries(value: ast.expr, names: set[str]) -> bool:
    """Whether a value is computed of one of these, and keeps its graph."""
    nodes = walk(value)
    cut = any(isinstance(node, ast.Attribute | ast.Name) and last_name(node) in _CUTS for node in nodes)
    return not cut and any(isinstance(node, ast.Name) and node.id in names for node in nodes)


def _hands_on(calls: list[ast.Call], name: str) -> bool:
    """Whether the wrapped model is given to somebody who may call it."""
    asked = ("hasattr", "isinstance", "type")
    return any(_is(argument, name) for call in calls if last_name(call.func) not in asked for argument in call.args)
