"""clipped-surrogate-reversed: the clipped objective of PPO with the wrong sign, or with the larger of its two terms."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, reads_of, stores_of, walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.origins import callers, returns

LOOKS_AT = "clipped objective"
WORDS = ("clamp", "clip")
_SMALLER, _LARGER = ("torch.min", "torch.minimum"), ("torch.max", "torch.maximum")
_OLD = pattern(r"(?:^|[._\['\"])(?:old|prev|behaviou?r)(?:[._\]'\"]|$)")
_WHOLE = ("mean", "sum", "squeeze", "view", "unsqueeze")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if any(True for _ in facts.sites.mentioning(["maximize=True"])):
        return  # an optimizer that goes uphill
    for call in facts.sites.calls(*_SMALLER, *_LARGER):
        if call.function is None or len(call.node.args) != 2:
            continue
        if (bare := _without_advantage(call)) is not None:
            facts.sites.seen[LOOKS_AT] += 1
            yield Finding(
                "The clipped ratio is not multiplied by the advantage, and is compared with one that is",
                call.file.place(bare, call.context).location,
                help="`torch.clamp(ratio, 1 - eps, 1 + eps) * advantage`",
                related=(call.place.location,),
            )
            continue
        if not _is_surrogate(call):
            continue
        facts.sites.seen[LOOKS_AT] += 1
        if (cut := _detached_ratio(call)) is not None:
            yield Finding(
                "The ratio is detached: no gradient of the clipped objective reaches the policy",
                cut.place.location,
                help="detach the old log-probabilities alone",
                related=(call.place.location,),
            )
            continue
        if (turned := _turned_ratio(call)) is not None:
            yield Finding(
                "The old probability is divided by the new one: what brought reward becomes less likely",
                call.file.place(turned, call.context).location,
                help="`torch.exp(new - old)`",
                related=(call.place.location,),
            )
            continue
        signs = _signs(call.function, call.node)
        if _is_negated(call) or signs is None or _turns_gradients(call.function):
            continue
        if call.name in _LARGER and signs == {-1}:
            yield Finding(
                "The larger of the two terms is maximised here: clipping does not limit the policy update",
                call.place.location,
                help="`-torch.min(ratio * advantage, clipped * advantage).mean()`",
            )
        elif call.name in _SMALLER and signs == {1}:
            yield Finding(
                "The clipped objective is minimised here: actions that brought reward become less likely",
                call.place.location,
                help="put a minus before it: `-torch.min(ratio * advantage, clipped * advantage).mean()`",
            )


def _is_surrogate(call: Call) -> bool:
    """Whether one of the two terms is a product with `clamp(ratio, 1 - eps, 1 + eps)`, and the other one without."""
    clipped = [_is_clipped(call, argument) for argument in call.node.args]
    return any(clipped) and not all(clipped)


def _without_advantage(call: Call) -> ast.expr | None:
    """`clamp(ratio, 1 - eps, 1 + eps)` itself, beside `ratio * advantage`."""
    for one, other in (call.node.args, reversed(call.node.args)):
        clipped, _ = call.file.value(one, call.context)
        product, _ = call.file.value(other, call.context)
        if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult) and _clips_ratio(clipped):
            names = [last_name(part).lower() for part in (product.left, product.right)]
            if any("ratio" in name for name in names) and any("adv" in name or "gae" in name for name in names):
                return clipped
    return None


def _clips_ratio(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or last_name(node.func) not in ("clamp", "clip"):
        return False
    text = ast.unparse(node)
    return "ratio" in text.lower() and "1 - " in text.replace("1.0", "1") and "adv" not in text.lower()


def _is_clipped(call: Call, term: ast.expr) -> bool:
    node, context = call.file.value(term, call.context)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    for side in (node.left, node.right):
        inner, _ = call.file.value(side, context)
        if isinstance(inner, ast.Call) and last_name(inner.func) in ("clamp", "clip"):
            if "1" in ast.unparse(inner) and "ratio" in ast.unparse(inner).lower():
                return True
    return False


def _detached_ratio(call: Call) -> Call | None:
    """`exp(new - old).detach()`, where that is the ratio of both terms."""
    found = []
    for term in call.node.args:
        node, context = call.file.value(term, call.context)
        for part in walk(node):
            if isinstance(part, ast.Name) and "ratio" in part.id.lower():
                made, where = call.file.value(part, context)
                if not isinstance(made, ast.Call) or last_name(made.func) != "detach":
                    return None
                found.append(Call(call.file, made, where))
    return found[0] if len(found) > 1 and len({id(each.node) for each in found}) == 1 else None


def _turned_ratio(call: Call) -> ast.expr | None:
    """`exp(old - new)`, where that is a factor of the terms."""
    for term in call.node.args:
        node, context = call.file.value(term, call.context)
        for part in walk(node):
            made, _ = call.file.value(part, context) if isinstance(part, ast.Name) else (part, context)
            match made:
                case ast.Call(func=ast.Attribute(value=ast.BinOp(left=left, op=ast.Sub(), right=right), attr="exp")):
                    pass
                case ast.Call(func=ast.Attribute(attr="exp"), args=[ast.BinOp(left=left, op=ast.Sub(), right=right)]):
                    pass
                case _:
                    continue
            if _OLD.search(ast.unparse(left)) and not _OLD.search(ast.unparse(right)):
                return made
    return None


def _is_negated(call: Call) -> bool:
    """Whether a minus stands in one of the terms, or in what the advantage is made of."""
    for argument in call.node.args:
        node, context = call.file.value(argument, call.context)
        for part in walk(node):
            inner = call.file.value(part, context)[0] if isinstance(part, ast.Name) else part
            if isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub):
                return True
            if isinstance(inner, ast.Name) and any(word in inner.id.lower() for word in ("cost", "neg")):
                return True
    return False


def _turns_gradients(function: Function) -> bool:
    """Whether the gradients are taken in hand, or come with a factor of their own: `loss.backward(-one)`."""
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in function.nodes):
        return True
    backwards = [n for n in function.nodes if isinstance(n, ast.Call) and last_name(n.func) == "backward"]
    return any(call.args or any(keyword.arg == "gradient" for keyword in call.keywords) for call in backwards)


def _signs(function: Function, node: ast.expr, followed: frozenset[str] = frozenset()) -> set[int] | None:
    """The signs with which what `node` comes to enters a loss; None where that cannot be followed."""
    around = {child: outer for outer in function.nodes for child in ast.iter_child_nodes(outer)}
    sign: int = 1
    inner: ast.AST = node
    while True:
        outer = around.get(inner)
        match outer:
            case ast.UnaryOp(op=ast.USub()):
                sign = -sign
            case ast.Attribute(attr=attribute) if attribute in _WHOLE:
                outer = around.get(outer)
            case ast.BinOp(op=ast.Sub(), right=right) if right is inner:
                sign = -sign
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                pass
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                other = right if left is inner else left
                if not isinstance(other, ast.Constant) or not isinstance(other.value, int | float) or other.value < 0:
                    return None
            case ast.Assign(targets=[ast.Name(id=name)]) if name not in followed:
                return _of_reads(function, name, sign, followed | {name})
            case ast.Return() if len(list(returns(function))) == 1 and not _turns_gradients(function):
                return _of_calls(function, sign)
            case _:
                return None
        assert outer is not None
        inner = outer


def _adds_to(line: ast.AST, name: str) -> bool:
    """`loss = loss + value_loss`, `loss -= entropy`."""
    match line:
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Add() | ast.Sub()):
            return target == name
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.BinOp() as value) if target == name:
            inner: ast.expr = value
            while isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add | ast.Sub):
                inner = inner.left
            return is_name(inner, name)
    return False


def _of_calls(function: Function, sign: int) -> set[int] | None:
    """The signs of what a function returns in the losses of those that call it, and that follow it alike."""
    found: set[int] = set()
    for call in callers(function.file.sites, function):
        if call.function is None or call.function is function or _turns_gradients(call.function):
            return None
        further = _signs(call.function, call.node)
        if further is None:
            return None
        found |= {sign * each for each in further}
    return found or None


def _of_reads(function: Function, name: str, sign: int, followed: frozenset[str]) -> set[int] | None:
    """The signs of a variable where it is differentiated, itself or in what it is added up to."""
    more = [line for line in function.nodes if _adds_to(line, name)]
    within = {part for line in more for part in walk(line)}
    reads = [read for read in reads_of(function.nodes, name) if read not in within]
    if len(stores_of(function.nodes, name)) != 1 + len(more):
        return None
    found: set[int] = set()
    for read in reads:
        outer = next((n for n in function.nodes if isinstance(n, ast.Attribute) and n.value is read), None)
        if outer is not None and outer.attr == "backward":
            found.add(sign)
        elif outer is None or outer.attr in _WHOLE:
            further = _signs(function, read, followed)
            found |= {sign * each for each in further} if further else set()
    return found or None
