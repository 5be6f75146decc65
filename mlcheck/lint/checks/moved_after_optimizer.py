"""moved-after-optimizer: a model goes to its device after the optimizer was made."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import before_methods, walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.training.optimizers import before_training, before_training_later, optimized, optimizers

LOOKS_AT = "optimizer"
_DEVICES = ("device", "cuda", "rank", "gpu", "mps")
_PLACES = (".to(", ".cuda(", "device=")
_CASTS = ("float", "double", "half", "bfloat16", "train", "eval")


def check(facts: Facts) -> Iterator[Finding]:
    made = facts.sites.once(optimizers)
    facts.sites.seen[LOOKS_AT] = len(made)
    reported: set[ast.Call] = set()
    for call, model in (each for optimizer in made for each in optimized(optimizer)):
        for statement in (*before_training(call), *_beyond(call, model)):
            move = _moves(statement, model)
            if move is not None and move not in reported:
                reported.add(move)
                yield Finding(
                    f"`{model}` is moved after its optimizer was made: its state stays on the old device",
                    call.file.place(move, call.context).location,
                    help="move the model first, then make the optimizer and load its state",
                    related=(call.place.location,),
                )
            if move is not None or _is_bound_anew(statement, model):
                break


def _beyond(call: Call, model: str) -> Iterator[ast.stmt]:
    """What other methods do to a model that nobody put on its device where it was made and where it was kept."""
    owner, _, name = model.rpartition(".")
    sets = call.cls.attribute(name) if owner == "self" and call.cls is not None else []
    sets = [each for each in sets if each[1].value is None or not _is_itself(each[1].value, model)]
    value = sets[0][1].value if len(sets) == 1 else None
    made = origins(sets[0][0].file, value, sets[0][1].context) if value is not None else []
    around = [each.file.function_around(each.context) or each.file for each in made]
    texts = [each.text for each in (*around, *(where for where, _ in sets))]
    plain = bool(made) and all(isinstance(each.node, ast.Call) for each in made)
    if plain and not any(word in text for text in texts for word in _PLACES):
        yield from before_training_later(call)


def _is_itself(node: ast.expr, model: str) -> bool:
    """`self.net.to(device)` of `self.net`."""
    return ast.unparse(before_methods(node, (*_CASTS, "to", "cuda"))) == model


def _is_bound_anew(statement: ast.stmt, model: str) -> bool:
    """`model = Net()`: from here on the name means another one."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(ast.unparse(target) == model for target in targets)


def _moves(statement: ast.stmt, model: str) -> ast.Call | None:
    """`model.cuda()` and `model = model.to(device)` as statements."""
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    for node in walk(value) if value is not None else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if ast.unparse(before_methods(node.func.value, _CASTS)) != model:
            continue
        told = any(word in ast.unparse(arg).lower() for arg in node.args for word in _DEVICES)
        if node.func.attr == "cuda" or (node.func.attr == "to" and told):
            return node
    return None
