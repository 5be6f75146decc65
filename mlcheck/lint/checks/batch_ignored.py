"""batch-ignored: gradients are accumulated over the same batch again and again."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import Call

LOOKS_AT = "loop that accumulates gradients"
WORDS = ("accum", "micro", "MICRO", "ACCUM")
_ACCUMULATES = pattern(r"accum|micro")
_MODEL = pattern(r"model|net$|gpt|transformer|ddp|engine")
_FETCHES = pattern(r"next|batch|sample|load|data|chunk|split|fetch|draw|pull|read|get|^iter")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
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
    if any(_FETCHES.search(last_name(node.func)) for node in called if node is not loop.iter):
        return None
    if any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) for node in nodes):
        return None
    models = [node for node in called if node.args and _is_model(call, node)]
    if len(models) != 1:
        return None
    names = [arg.id if isinstance(arg, ast.Name) else "" for arg in models[0].args]
    return models[0] if all(names) and not stored & set(names) else None


def _is_model(call: Call, node: ast.Call) -> bool:
    return (
        _MODEL.search(last_name(node.func).lower()) is not None and call.file.resolve(node.func, call.context) is None
    )
