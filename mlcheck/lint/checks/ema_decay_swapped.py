"""ema-decay-swapped: an average of weights that forgets all but the last step."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call, Context, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.options import by_default
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "moving average"
_MADE = {
    "torch.optim.swa_utils.get_ema_multi_avg_fn": 0,
    "torch.optim.swa_utils.get_ema_avg_fn": 0,
    "timm.utils.ModelEma": 1,
    "timm.utils.ModelEmaV2": 1,
    "timm.utils.ModelEmaV3": 1,
    "torch_ema.ExponentialMovingAverage": 1,
}
_WEIGHTS = ("parameters()", "state_dict()")
_HARDLY = 0.2  # no method that averages weights keeps so little: BYOL begins at 0.99, TD3 keeps 0.995, Polyak more


class _At(NamedTuple):
    """Where a formula stands."""

    file: File
    context: Context


def check(facts: Facts) -> Iterator[Finding]:
    seen = 0
    for call in facts.sites.calls(*_MADE):
        seen += 1
        decay = call.constant("decay", _MADE[call.name])
        if isinstance(decay, float) and 0 < decay < _HARDLY:
            yield _finding(call.file, call.node, call.context, decay)
    for file in facts.sites.mentioning(["parameters()", "state_dict()"]):
        for update, context, old, new in _updates(file):
            seen += 1
            share = _kept(file, context, old, new)
            if share is not None and 0 < round(share, 6) < _HARDLY:
                yield _finding(file, update, context, share)
        for update, context, name in _lowered(file):
            yield Finding(
                f"`self.{name}` takes the smaller of itself and a value of the first steps: it never rises again",
                file.place(update, context).location,
                help=f"leave the attribute alone: `{name} = min(self.{name}, ...)`",
            )
    for file in facts.sites.mentioning(["mul_"]):
        for call in file.calls("add_", "addcmul_"):
            if (shares := _of_two_averages(call)) is not None:
                seen += 1
                yield Finding(
                    f"This keeps `{shares[0]}` of the average and takes `1 - {shares[1]}` of what is new: "
                    "together that is not one, and the average grows or shrinks",
                    call.place.location,
                    help=f"`1 - {shares[0]}`",
                )
    facts.sites.seen[LOOKS_AT] = seen


def _of_two_averages(call: Call) -> tuple[str, str] | None:
    """`beta1` and `beta2` of `average.mul_(beta1).add_(grad, alpha=1 - beta2)`."""
    taken = call.argument("alpha") or call.argument("value")
    match call.owner, taken:
        case (
            ast.Call(func=ast.Attribute(attr="mul_"), args=[ast.Name(id=kept)]),
            ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=ast.Name(id=other)),
        ):
            stems = kept.rstrip("0123456789"), other.rstrip("0123456789")
            return (kept, other) if kept != other and stems[0] == stems[1] and stems[0] != kept else None
    return None


def _finding(file: File, node: ast.AST, context: Context, kept: float) -> Finding:
    return Finding(
        f"The average keeps {kept:.4g} of itself and takes {1 - kept:.4g} of the new weights: it is hardly an average",
        file.place(node, context).location,
        help=f"the other way round: {1 - kept:.4g} of the average and {kept:.4g} of the new weights",
    )


def _lowered(file: File) -> Iterator[tuple[ast.AST, Context, str]]:
    """`self.decay = min(self.decay, (1 + n) / (10 + n))`, where each update counts `n` up."""
    for assigned in file.walk.attributes:
        value, function = assigned.value, file.method_around(assigned.context)
        if function is None or not isinstance(value, ast.Call) or ast.unparse(value.func) != "min":
            continue
        own = ast.unparse(assigned.target)
        others = [arg for arg in value.args if ast.unparse(arg) != own]
        if len(value.args) != 2 or len(others) != 1 or function.name == "__init__":
            continue
        counted = {
            ast.unparse(node.target)
            for node in function.nodes
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)
        }
        grows = isinstance(others[0], ast.BinOp) and any(ast.unparse(node) in counted for node in walk(others[0]))
        if grows and ("parameters()" in function.text or "decay" in own):
            yield assigned.node, assigned.context, assigned.target.attr


def _updates(file: File) -> Iterator[tuple[ast.AST, Context, ast.expr | None, ast.expr | None]]:
    """What averages weights one by one: the shares of the old and of the new one, as far as they are written."""
    for call in file.calls("add_", "lerp_", "copy_"):
        func = call.node.func
        if not isinstance(func, ast.Attribute) or not call.node.args:
            continue
        if not _goes_through_weights(call.context) and not _is_entry(file, func.value, call.context):
            continue
        if "grad" in ast.unparse(call.node):  # an optimizer's average of gradients may be as short as it likes
            continue
        at = _At(file, call.context)
        if func.attr == "copy_":
            yield from ((call.node, call.context, *both) for both in _formula(at, func.value, call.node.args[0]))
        else:
            yield from ((call.node, call.context, *both) for both in _formula(at, _changed(func.value), call.node))
    for function in file.functions:
        text = function.text
        for loop in function.nodes if "parameters" in text or "state_dict" in text else ():
            if isinstance(loop, ast.For) and any(word in ast.unparse(loop.iter) for word in _WEIGHTS):
                for node in walk(loop):
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                        for both in _formula(_At(file, function.inner), node.targets[0], node.value):
                            yield node, function.inner, *both
    for assigned in file.walk.attributes:
        if assigned.value is not None and assigned.target.attr == "data" and _goes_through_weights(assigned.context):
            for both in _formula(_At(file, assigned.context), assigned.target, assigned.value):
                yield assigned.node, assigned.context, *both


def _changed(owner: ast.expr) -> ast.expr:
    """What a chain of changes in place begins with: `ema` of `ema.mul_(decay)`."""
    while isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
        owner = owner.func.value
    return owner


def _goes_through_weights(context: Context) -> bool:
    """Whether the innermost loop is one over parameters or the items of a state dict."""
    for outer in context.outwards():
        if outer.kind in ("function", "lambda"):
            return False
        if isinstance(outer.node, ast.For):
            over = ast.unparse(outer.node.iter)
            return any(word in over for word in _WEIGHTS)
    return False


def _is_entry(file: File, node: ast.expr, context: Context) -> bool:
    """Whether it is an entry of what `state_dict()` gave."""
    held = source(file, node.value, context)[0] if isinstance(node, ast.Subscript) else None
    return isinstance(held, ast.Call) and last_name(held.func) == "state_dict"


def _formula(at: _At, target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr | None, ast.expr | None]]:
    """The factors of the old and of the new weights, as in `old * a + new * b`, `old.mul(a).add(new, alpha=b)` and
    `old.lerp(new, b)`, also in place."""
    match value:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _of_sum(at, target, left, right)
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Attribute(value=old, attr="mul" | "mul_"), args=[kept]), attr="add" | "add_"
            ),
            args=[new, *_],
        ) if _bare(at, old) == _bare(at, target):
            product = _term(at, new)
            alpha = Call(at.file, value, at.context).argument("alpha", 1)
            yield kept, alpha if product is None else product[1] if alpha is None else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="lerp"), args=[old, new, share]):
            yield from _of_lerp(at, target, old, new, share)
        case ast.Call(func=ast.Attribute(value=old, attr="lerp" | "lerp_"), args=[new, share]):
            yield from _of_lerp(at, target, old, new, share)


def _of_sum(at: _At, target: ast.expr, left: ast.expr, right: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    terms = [term for side in (left, right) if (term := _term(at, side)) is not None]
    old = [_bare(at, weights) == _bare(at, target) for weights, _ in terms]
    if len(terms) == len(old) == 2 and old.count(True) == 1:
        yield terms[old.index(True)][1], terms[old.index(False)][1]


def _of_lerp(
    at: _At, target: ast.expr, old: ast.expr, new: ast.expr, share: ast.expr
) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    if _bare(at, old) == _bare(at, target):
        yield None, share
    elif _bare(at, new) == _bare(at, target):
        yield None, ast.BinOp(ast.Constant(1.0), ast.Sub(), share)


def _term(at: _At, node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The weights and their factor in `w * 0.1` or `w.mul(0.1)`: the factor is the one that is a number."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            pass
        case ast.Call(func=ast.Attribute(value=left, attr="mul"), args=[right]):
            pass
        case _:
            return None
    if _number(at.file, left, at.context) is not None:
        return right, left
    return (left, right) if _number(at.file, right, at.context) is not None else None


def _bare(at: _At, node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        node = source(at.file, node, at.context)[0]
    return ast.unparse(node).removesuffix(".data").removesuffix(".detach()")


def _kept(file: File, context: Context, old: ast.expr | None, new: ast.expr | None) -> float | None:
    """The share that stays, where both factors are known to add up to one."""
    one = _number(file, old, context) if old is not None else None
    other = _number(file, new, context) if new is not None else None
    if old is None and other is not None:
        return 1 - other
    if one is None or other is None or abs(one + other - 1) > 1e-6:
        return None
    return one


def _number(file: File, node: ast.expr, context: Context) -> float | None:
    """The number an expression comes to, whoever gives it; None where it may be several."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, right = _number(file, node.left, context), _number(file, node.right, context)
        return left - right if left is not None and right is not None else None
    found = {_constant(file, context, node)}
    if found == {None}:
        found = {_constant(origin.file, origin.context, origin.node) for origin in origins(file, node, context)}
    if found == {None}:
        found = {_as_number(by_default(file, node, context))}
    return found.pop() if len(found) == 1 else None


def _constant(file: File, context: Context, node: ast.expr) -> float | None:
    value = file.constant(node, context)
    if not isinstance(value, int | float) and isinstance(node, ast.Name):
        bound = file.bindings(node.id, context)
        function = file.function_around(bound[0].context) if len(bound) == 1 and bound[0].kind == "param" else None
        default = function.parameters.get(node.id) if function is not None else None
        value = file.constant(default, context) if default is not None else None
    return _as_number(value)


def _as_number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
