"""penalty-without-graph: a gradient penalty whose gradient was taken without a graph teaches nothing."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Function
from mlcheck.lint.sites.origins import callers, returns

LOOKS_AT = "gradient of a gradient"
WORDS = ("autograd",)
_DEPTH = 2
_NAMED = pattern(
    r"penalty|^(?:gp|r1)$|_(?:gp|r1)$|(?:^|_)(?:gp|r[12])_(?:loss|reg|term)|regulari[sz]|(?:^|_)(?:loss|reg)(?:_|$)",
    re.IGNORECASE,
)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for call in facts.sites.calls("torch.autograd.grad"):
        facts.sites.seen[LOOKS_AT] += 1
        if call.function is None or call.file.is_test or call.constant("create_graph", 4, False) is not False:
            continue
        used = _penalised(call, call.function) or _penalised_above(call, call.function)
        if used is not None:
            yield Finding(
                "The gradient is taken without a graph of its own: the penalty on it is a constant to the weights, "
                "and changes none of them",
                call.place.location,
                help="pass `create_graph=True`",
                related=(used.location,),
            )


def _penalised_above(call: Call, function: Function, depth: int = _DEPTH) -> Place | None:
    """The same in a function that calls this one, which returns the gradient: `input_gradient(critic, x)`."""
    derived = _derived(call, function)
    answers = list(returns(function))
    if not depth or not answers or not all(_mentions(each, derived, call.node) for each in answers):
        return None
    for above in callers(function.file.sites, function):
        around = above.function
        if around is None or around is function or above.file.is_test:
            continue
        found = _penalised(above, around, of_number=True) or _penalised_above(above, around, depth - 1)
        if found is not None:
            return found
    return None


def _penalised(call: Call, function: Function, of_number: bool = False) -> Place | None:
    """The square of the gradient's norm less a number, or of the gradient, that becomes part of a loss.

    `of_number`: of nothing else, as the gradient of a known function may be what a network is to learn.
    """
    derived = _derived(call, function)
    for node in function.nodes:
        base = _squared(node)
        if base is None or not _mentions(base, derived, call.node):
            continue
        to_one = isinstance(base, ast.BinOp) and isinstance(base.op, ast.Sub) and isinstance(base.right, ast.Constant)
        if of_number and not to_one and not _is_alone(base, function):
            continue
        if (to_one or _NAMED.search(function.name)) and _is_learnt_from(function, node):
            return function.place(node)
    return None


def _is_alone(base: ast.expr, function: Function) -> bool:
    """The gradient, or its norm less a parameter that is a number unless it is given."""
    if isinstance(base, ast.BinOp) and isinstance(base.op, ast.Sub) and isinstance(base.right, ast.Name):
        return isinstance(function.parameters.get(base.right.id), ast.Constant)
    return not isinstance(base, ast.BinOp)


def _squared(node: ast.AST) -> ast.expr | None:
    """`x` of `x ** 2`, `x.pow(2)`, `x.square()` and `torch.square(x)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and ast.unparse(node.right) in ("2", "2.0"):
        return node.left
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr == "square":
        return node.args[0] if node.args else node.func.value
    return node.func.value if node.func.attr == "pow" and [ast.unparse(arg) for arg in node.args] == ["2"] else None


def _derived(call: Call, function: Function) -> set[str]:
    """The names that hold the gradient, or what is computed from it."""
    names: set[str] = set()
    for _ in range(3):
        for node in function.nodes:
            if isinstance(node, ast.Assign) and _mentions(node.value, names, call.node):
                names |= {part.id for target in node.targets for part in walk(target) if isinstance(part, ast.Name)}
    return names


def _mentions(node: ast.AST, names: set[str], call: ast.Call) -> bool:
    return any(part is call or (isinstance(part, ast.Name) and part.id in names) for part in walk(node))


def _is_learnt_from(function: Function, square: ast.AST) -> bool:
    """Whether a gradient is asked of it here, or by who calls this; of what nobody calls, the name tells."""
    todo, seen = [(function, square)], set[ast.AST]()
    while todo:
        here, made = todo.pop()
        if made in seen:
            continue
        seen.add(made)
        own = _own(here, made)
        asked = [
            node.func.value
            for node in here.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
        ]
        if any(_reads(node, own, made) for node in asked):
            return True
        if not any(_reads(node, own, made) for node in returns(here)):
            continue
        calls = [
            (call.function, call.node) for call in callers(here.file.sites, here) if call.function not in (None, here)
        ]
        if not calls and _NAMED.search(here.name) is not None:
            return True
        todo += calls
    return False


def _own(function: Function, square: ast.AST) -> set[str]:
    """The names that hold the penalty, or what is computed from it."""
    own = {
        part.id
        for node in function.nodes
        if isinstance(node, ast.Assign) and any(inner is square for inner in walk(node.value))
        for target in node.targets
        for part in walk(target)
        if isinstance(part, ast.Name)
    }
    for _ in range(3):
        for node in function.nodes:
            if isinstance(node, ast.Assign | ast.AugAssign) and _reads(node.value, own, square):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                own |= {part.id for target in targets for part in walk(target) if isinstance(part, ast.Name)}
    return own


def _reads(node: ast.AST, own: set[str], square: ast.AST) -> bool:
    """Whether it is computed from the penalty, and not a number taken out of it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "detach"):
        return False
    if node is square or (isinstance(node, ast.Name) and node.id in own):
        return True
    return any(_reads(child, own, square) for child in ast.iter_child_nodes(node))
