"""bootstrap-not-detached: the target of a temporal difference is computed with gradients."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites import Context, File, Function
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.origins import callers, given

LOOKS_AT = "temporal difference"
WORDS = ("gamma", "GAMMA", "discount", "DISCOUNT", "0.9")
_REWARD = pattern(r"^(?:r|rs|rew|rews|reward|rewards|r_t)(?:_?(?:batch|tensor|b|t))?$|^(?:batch|b)_rewards?$")
_DISCOUNT = pattern(r"gamma|discount")
_NEXT = pattern(r"next|nxt|^(?:s2|s_|ns|obs2|s_prime|s1|o2|new_(?:s|obs|states?)|s_?next|s_tp1|obs_tp1)$|_2$|prime")
_CUTS = frozenset(["detach", "detach_", "item", "numpy", "tolist", "no_grad"])
_SAME = frozenset(
    ["max", "min", "amax", "gather", "squeeze", "unsqueeze", "view", "reshape", "flatten", "float", "mean"]
)
_SMALLER = ("torch.min", "torch.minimum", "torch.max", "torch.maximum", "torch.squeeze")
_OFF = ("no_grad", "inference_mode", "set_grad_enabled")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        for function in file.functions:
            yield from _in_function(file, function)


def _in_function(file: File, function: Function) -> Iterator[Finding]:
    text = function.text
    if not _DISCOUNT.search(text.lower()) and "0.9" not in text:
        return
    if "residual" in text:
        return
    learns = _learns(function)
    for node, context in _targets(file, function):
        file.sites.seen[LOOKS_AT] += 1
        call = _value_of_next(file, node, context)
        if call is None or _is_cut_later(function, node) or _is_maximised(function, node):
            continue
        if not (learns and "torch" in file.text) and not _is_handed_to_learner(function, node):
            continue
        name = ast.unparse(_network(call, function) or call.func)
        harm = "its graph is kept for nothing" if "target" in name else "the loss moves it as well"
        yield Finding(
            f"The target that is learnt from is computed by `{name}` with gradients: {harm}",
            file.place(call, context).location,
            help=f"call `{name}` under `torch.no_grad()`, or `.detach()` the target",
            related=(file.place(node, context).location,),
        )


def _learns(function: Function) -> bool:
    return ".backward(" in function.text and ".step(" in function.text


def _is_handed_to_learner(function: Function, target: ast.BinOp) -> bool:
    """Whether the function returns the target, and all that call it learn from that as it is."""
    held = _held(function, target)
    values = [line.value for line in function.all(ast.Return) if line.value is not None]
    returned = [
        value for value in values if _is_made_of(value, target) or (isinstance(value, ast.Name) and value.id in held)
    ]
    calls = list(callers(function.file.sites, function)) if len(returned) == len(values) == 1 else []
    return bool(calls) and all(call.function is not None and _learns_from(call.function, call.node) for call in calls)


def _learns_from(function: Function, target: ast.Call) -> bool:
    if (
        not _learns(function)
        or "torch" not in function.file.text
        or "residual" in function.text
        or _is_switched_off_around(function)
    ):
        return False
    return not (
        _is_under_no_grad(function, target) or _is_cut_later(function, target) or _is_maximised(function, target)
    )


def _is_switched_off_around(function: Function) -> bool:
    return any(word in ast.unparse(each) for each in function.node.decorator_list for word in _OFF)


def _targets(file: File, function: Function) -> Iterator[tuple[ast.BinOp, Context]]:
    """`reward + gamma * value * (1 - done)`, with gradients on."""
    for node in () if _is_switched_off_around(function) else function.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        if not _REWARD.search(last_name(_plain(node.left)).lower()) or not isinstance(node.right, ast.BinOp):
            continue
        names = {last_name(part).lower() for part in walk(node.right)}
        told = any(_DISCOUNT.search(name) for name in names) or any(map(_is_discount, walk(node.right)))
        if told and not _is_under_no_grad(function, node):
            yield node, function.inner


def _is_discount(node: ast.AST) -> bool:
    """`0.99`, written where it is used."""
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0.9 <= node.value < 1


def _plain(node: ast.expr) -> ast.expr:
    """`rewards` of `rewards.unsqueeze(1)` and `rewards[:, None]`."""
    *_, last = _layers(node)
    return last


def _layers(node: ast.expr | None) -> Iterator[ast.expr]:
    """It, then what its method is called of or its item taken from, and so on."""
    while node is not None:
        yield node
        inner = node.value if isinstance(node, ast.Subscript) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner = node.func.value
        node = inner


def _is_switched_off(function: Function, node: ast.expr) -> bool:
    """`torch.set_grad_enabled(False)` as a statement above, with no other below it."""
    lines = [each.value for each in function.nodes if isinstance(each, ast.Expr) and each.lineno < node.lineno]
    switches = [each for each in lines if isinstance(each, ast.Call) and last_name(each.func) == "set_grad_enabled"]
    last = max(switches, key=lambda call: call.lineno, default=None)
    return last is not None and any(isinstance(given, ast.Constant) and given.value is False for given in last.args)


def _is_under_no_grad(function: Function, node: ast.expr) -> bool:
    if _is_switched_off(function, node):
        return True
    blocks = (each for each in function.nodes if isinstance(each, ast.With))
    return any(
        any(word in ast.unparse(item.context_expr) for item in block.items for word in _OFF)
        and any(part is node for part in walk(block))
        for block in blocks
    )


def _value_of_next(file: File, target: ast.BinOp, context: Context) -> ast.Call | None:
    """The module call in the discounted part, on what comes next, where nothing cuts its graph."""
    todo: list[ast.expr] = [target.right]
    function = file.function_around(context)
    while todo and function is not None:
        node = todo.pop(0)
        if isinstance(node, ast.BinOp):
            todo += [node.left, node.right]
        elif isinstance(node, ast.Name):
            made, _ = origin(file, node, context)
            if made is not node and not _is_under_no_grad(function, made):
                todo.append(made)
        elif (isinstance(node, ast.Attribute) and node.attr == "values") or isinstance(node, ast.Subscript):
            todo.append(node.value)
        elif isinstance(node, ast.Call) and file.called(node, context) in _SMALLER:
            todo += [arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
            todo.append(node.func.value)
        elif isinstance(node, ast.Call) and node.args and _is_value(node, function):
            return node
    return None


def _is_value(call: ast.Call, function: Function) -> bool:
    """`critic(next_state)`: what is called is held, not defined, and the state is the one that comes next."""
    func = call.func
    owned = isinstance(func, ast.Attribute) and is_name(func.value, function.receiver)
    if not owned and not isinstance(func, ast.Name):
        return False
    asked = _network(call, function)
    if asked is not None:
        frozen = "target" in last_name(asked) and "requires_grad" in function.file.text
        return not frozen and _comes_next(call.args[1], function)
    named = function.file.resolve(func, function.inner)
    if isinstance(named, str | Function) or (function.cls is not None and function.cls.find(last_name(func))):
        return False
    frozen = "target" in last_name(func) and "requires_grad" in function.file.text
    return not frozen and _comes_next(call.args[0], function)


def _comes_next(state: ast.expr, function: Function) -> bool:
    """`next_state`; a parameter that each call in sight gives such a one."""
    name = last_name(_plain(state))
    if _NEXT.search(name.lower()):
        return True
    held = list(given(function.file.sites, function, name)) if name in function.parameters else []
    return bool(held) and all(_NEXT.search(last_name(_plain(each.node)).lower()) for each in held)


def _network(call: ast.Call, function: Function) -> ast.expr | None:
    """`self.critic` of `self.q(self.critic, state, action)`, where that function calls what it is given first."""
    named = function.file.resolve(call.func, function.inner)
    if not isinstance(named, Function) or len(call.args) < 2 or _is_switched_off_around(named):
        return None
    names = list(named.parameters)[1 if named.receiver else 0 :]
    if not names or any(word in named.text for word in (*_OFF, "detach")):
        return None
    asked = any(isinstance(node, ast.Call) and is_name(node.func, names[0]) for node in named.nodes)
    return call.args[0] if asked and isinstance(call.args[0], ast.Name | ast.Attribute) else None


def _is_maximised(function: Function, target: ast.expr) -> bool:
    """`-value.mean()`: an actor that climbs the value through a model of the world, which needs the gradients."""
    held = _held(function, target)
    for node in function.nodes:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            for inner in _layers(node.operand):
                if inner is target or (isinstance(inner, ast.Name) and inner.id in held):
                    return True
    return False


def _held(function: Function, target: ast.expr) -> set[str]:
    """The variables that hold the target, or what is made of it."""
    lines = [node for node in function.nodes if isinstance(node, ast.Assign)]
    pairs = [pair for line in lines for pair in _pairs(line.targets[0], line.value)]
    return {name.id for name, value in pairs if isinstance(name, ast.Name) and _is_made_of(value, target)}


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """`a` with `x` and `b` with `y` of `a, b = x, y`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _is_cut_later(function: Function, target: ast.expr) -> bool:
    """Whether the target, or the variable that holds it, is detached where it is used."""
    held = _held(function, target)
    for node in function.nodes:
        for cut in _cut_by(node):
            if any(part is target or (isinstance(part, ast.Name) and part.id in held) for part in walk(cut)):
                return True
    return False


def _cut_by(node: ast.AST) -> Iterator[ast.expr]:
    """`x` of `x.detach()`, `x.data` and `torch.detach(x)`."""
    if isinstance(node, ast.Attribute) and node.attr in (*_CUTS, "data"):
        yield node.value
    elif isinstance(node, ast.Call) and last_name(node.func) in _CUTS:
        yield from node.args[:1]


def _is_made_of(node: ast.expr, target: ast.expr) -> bool:
    """`target`, `target.squeeze(1)`, `target - value`."""
    if isinstance(node, ast.BinOp) and node is not target:
        return _is_made_of(node.left, target) or _is_made_of(node.right, target)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node is not target:
        return _is_made_of(node.func.value, target)
    return node is target
