"""batch-ignored: the same batch is trained on again and again, in one step or in all of them."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, last_name, walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.training.kept_batches import kept_batches

LOOKS_AT = "loop that accumulates gradients"
WORDS = ("accum", "micro", "MICRO", "ACCUM", "next(iter(")
_ACCUMULATES = pattern(r"accum|micro")
_DRAWS = pattern(r"aug|noise|drop|mask|perturb|transform|mix|rand|crop|flip")
_MODEL_AND_LOSS = 2
_FETCHES = pattern(r"next|batch|sample|load|data|chunk|split|fetch|draw|pull|read|get|^iter")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for kept in kept_batches(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"Each turn of this loop trains on the batch that was taken above it, and nothing reads `{kept.brought}`",
            kept.read.location,
            help=f"train on `{kept.brought}`",
            related=(kept.taken.location,),
        )
    for file in facts.sites.mentioning(["accum", "micro", "MICRO", "ACCUM"]):
        for call in file.calls("backward") if "torch" in file.text else ():
            loop = call.loops[0].node if call.loops else None
            if not isinstance(loop, ast.For) or not _counts(loop):
                continue
            facts.sites.seen[LOOKS_AT] += 1
            fed = _fed(call, loop)
            if fed is not None:
                yield Finding(
                    "Each turn of this loop computes the gradients of the same batch: nothing in it fetches the next",
                    file.place(fed, call.context).location,
                    help="fetch a batch in each turn",
                    related=(file.place(loop.iter, call.context).location,),
                )


def _counts(loop: ast.For) -> bool:
    """`for micro_step in range(accumulation_steps)`, which no optimizer's step ends."""
    told = any(_ACCUMULATES.search(last_name(part).lower()) for part in (*walk(loop.target), *walk(loop.iter)))
    plain = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) in ("range", "trange")
    return told and plain and not any(isinstance(n, ast.Attribute) and n.attr == "step" for n in walk(loop))


def _fed(call: Call, loop: ast.For) -> ast.Call | None:
    """The call of the model, where it is given names alone, none of which changes in the loop."""
    nodes = walk(loop)
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    called = [node for node in nodes if isinstance(node, ast.Call)]
    if any(_FETCHES.search(last_name(node.func)) or _DRAWS.search(last_name(node.func)) for node in called):
        return None
    if any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) for node in nodes):
        return None
    models = [node for node in called if node.args and _is_held(call, node)]
    names = [[arg.id if isinstance(arg, ast.Name) else "" for arg in model.args] for model in models]
    fed = [model for model, given in zip(models, names, strict=True) if all(given) and not stored & set(given)]
    return fed[0] if len(fed) == 1 and len(models) <= _MODEL_AND_LOSS else None


def _is_held(call: Call, node: ast.Call) -> bool:
    """`model(...)`, `self.model(...)`: something that is held and called, and no function of the program."""
    func = node.func
    own = isinstance(func, ast.Name) or (isinstance(func, ast.Attribute) and is_name(func.value, "self"))
    return own and call.file.resolve(func, call.context) is None and not _DRAWS.search(last_name(func))
