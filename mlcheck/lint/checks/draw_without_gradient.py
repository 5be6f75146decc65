"""draw-without-gradient: a network is to learn through what is drawn, and drawing it passes no gradient."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, is_name, last_name, loads, walk
from mlcheck.lint.sites import Call, File, Function
from mlcheck.lint.sites.latest import origin
from mlcheck.lint.sites.layers.drawn import Drawn, drawn, given_on
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.policies.climbing import SHAPES, climbed_here, is_minimised, judges
from mlcheck.lint.sites.records import made_of

LOOKS_AT = "draw from a learnt distribution"
WORDS = (".sample(", "torch.normal(", ".sample_n(")
_REPARAMETERISES = pattern(r"reparam")
_LEARNS = pattern(r"^(?:forward|training_step|step|_step|shared_step|elbo|loss|train_step|run_step|update)$|_loss$")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        yield from _here(facts, file) if "torch" in file.text else ()
        for draw in drawn(file) if "torch" in file.text else ():
            facts.sites.seen[LOOKS_AT] += 1
            related = _climbed(facts, draw) if ".log_prob(" in file.text else _decoded(file, draw)
            if related is not None:
                name = ast.unparse(draw.call.func)
                yield Finding(
                    f"`{name}` passes no gradient on: the parameters of this distribution learn nothing from it",
                    file.place(draw.call, draw.function.inner).location,
                    help="draw with `rsample()`, or by hand: `mu + std * torch.randn_like(std)`",
                    related=() if related is draw.call else (file.place(related, draw.function.inner).location,),
                )


def _here(facts: Facts, file: File) -> Iterator[Finding]:
    for function, draw, judged in climbed_here(file):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"`{ast.unparse(draw.func)}` passes no gradient on: the policy does not learn what the critic thinks of "
            "its action",
            function.place(draw).location,
            help="draw with `rsample()`",
            related=(function.place(judged).location,),
        )


def _decoded(file: File, draw: Drawn) -> ast.AST | None:
    """Where the next layer gets what was drawn; the draw itself in a method that is to reparameterise."""
    function = draw.function
    if _REPARAMETERISES.search(function.name):
        answers = list(returns(function))
        held = draw.name
        plain = [a for a in answers if a is draw.call or (held and is_name(a, held))]
        given = [part for each in draw.parameters for part in walk(each) if isinstance(part, ast.Name)]
        return draw.call if plain == answers != [] and given else None
    if not _LEARNS.search(function.name) or not draw.is_learnt:
        return None
    if not draw.name or _is_shifted(function, draw.name):
        return None
    return next(given_on(function, draw.name), None)


def _is_shifted(function: Function, name: str) -> bool:
    """Whether something is added to it, as in `z + (probs - probs.detach())`, or another value may stand under it."""
    stored = [node for node in function.all(ast.Name) if node.id == name and isinstance(node.ctx, ast.Store)]
    sums = (node for node in function.all(ast.BinOp) if isinstance(node.op, ast.Add | ast.Sub))
    return len(stored) > 1 or any(is_name(side, name) for node in sums for side in (node.left, node.right))


def _climbed(facts: Facts, draw: Drawn) -> ast.AST | None:
    """`action, log_prob = actor.sample(state)`, and `(alpha * log_prob - critic(state, action)).mean()` is minimised.

    With `log_prob * advantage` the gradient needs no way through the action.
    """
    function = draw.function
    if function.cls is None or not draw.is_learnt:
        return None
    answers = [answer for answer in returns(function) if isinstance(answer, ast.Tuple)]
    if len(answers) != 1:
        return None
    places = {
        kind: [number for number, part in enumerate(answers[0].elts) if _leads_to(function, part, draw, kind)]
        for kind in ("drawn", "log_prob")
    }
    for file in facts.sites.mentioning([".backward("]):
        for user in file.functions if function.name in file.text or function.name == "forward" else ():
            for call in _calls_of(file, user, function):
                if _is_climbed(file, user, call, places):
                    return draw.call
    return None


def _leads_to(function: Function, part: ast.expr, draw: Drawn, kind: str) -> bool:
    """Whether an answer comes from what was drawn, or from its log-probability: through local names."""
    todo, seen, logs = [part], set[int](), False
    found = False
    while todo and len(seen) < 30:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for inner in walk(node):
            logs = logs or (isinstance(inner, ast.Call) and last_name(inner.func) == "log_prob")
            found = found or inner is draw.call
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                made, _ = origin(function.file, inner, function.inner)
                todo += [made] if made is not inner else []
                if inner.id != draw.name:
                    todo += _stored(function, inner.id)
    return logs if kind == "log_prob" else found and not logs


def _stored(function: Function, name: str) -> list[ast.expr]:
    """What is assigned to the name anywhere in the function, and what is taken from it or added to it."""
    plain = [n.value for n in function.all(ast.Assign) if any(is_name(target, name) for target in n.targets)]
    return plain + [n.value for n in function.all(ast.AugAssign) if is_name(n.target, name)]


def _calls_of(file: File, user: Function, function: Function) -> Iterator[Call]:
    """The calls of the method in a function: `self.actor.sample(state)`, `self.actor(state)`."""
    for assign in user.all(ast.Assign):
        node = assign.value
        if not isinstance(node, ast.Call):
            continue
        func = node.func
        if function.name == "forward":
            owner: ast.expr | None = func
        else:
            owner = func.value if isinstance(func, ast.Attribute) and func.attr == function.name else None
        if owner is None:
            continue
        cls = made_of(file, owner, user.inner)
        if cls is not None and cls.find(function.name) is function:
            yield Call(file, node, user.inner)


def _is_climbed(file: File, user: Function, call: Call, places: dict[str, list[int]]) -> bool:
    """Whether a critic's answer to the drawn action is taken from its log-probability in what is minimised."""
    targets = next((n.targets[0] for n in user.all(ast.Assign) if n.value is call.node), None)
    if not isinstance(targets, ast.Tuple):
        return False
    names = {
        kind: {last_name(targets.elts[i]) for i in numbers if i < len(targets.elts)} - {"", "_"}
        for kind, numbers in places.items()
    }
    for node in user.all(ast.BinOp):
        if not isinstance(node.op, ast.Sub) or not any(loads(node.left, name) for name in names["log_prob"]):
            continue
        right = before_methods(node.right, SHAPES)
        if isinstance(right, ast.Name | ast.Call) and judges(file, user, right, names["drawn"]):
            if is_minimised(user, node):
                return True
    return False
