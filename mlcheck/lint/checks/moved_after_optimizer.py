"""moved-after-optimizer: a model goes to its device after the optimizer was made."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.optimizers import following, optimizers

LOOKS_AT = "optimizer"
_DEVICES = ("device", "cuda", "rank", "gpu", "mps")


def check(facts: Facts) -> Iterator[Finding]:
    made = facts.sites.once(optimizers)
    facts.sites.seen[LOOKS_AT] = len(made)
    for call in made:
        model = _model(call)
        for statement in following(call) if model else ():
            if isinstance(statement, ast.For | ast.While):
                break
            if (move := _moves(statement, model)) is not None:
                yield Finding(
                    f"`{model}` is moved after its optimizer was made: what state that holds by then stays behind",
                    call.file.place(move, call.context).location,
                    help="move the model first, then make the optimizer and load its state",
                    related=(call.place.location,),
                )
                break


def _model(call: Call) -> str:
    """`model` of `Adam(model.parameters())`."""
    given = call.argument("params", 0)
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "parameters":
        return ast.unparse(given.func.value)
    return ""


def _moves(statement: ast.stmt, model: str) -> ast.Call | None:
    """`model.cuda()` and `model = model.to(device)` as statements."""
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    for node in walk(value) if value is not None else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if ast.unparse(node.func.value) != model:
            continue
        told = any(word in ast.unparse(arg).lower() for arg in node.args for word in _DEVICES)
        if node.func.attr == "cuda" or (node.func.attr == "to" and told):
            return node
    return None
