"""retain-graph-unneeded: the graph of every step is kept for a second backward that never comes."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Function

LOOKS_AT = "retained graph"
WORDS = ("retain_graph",)
_SECOND = ("autograd.grad", "create_graph", "make_dot", "autograd.backward")


def check(facts: Facts) -> Iterator[Finding]:
    kept = [
        call
        for file in facts.sites.mentioning(["retain_graph"])
        if "torch" in file.text or "paddle" not in file.text
        for call in file.calls("backward")
        if call.constant("retain_graph", 1) is True
    ]
    facts.sites.seen[LOOKS_AT] = len(kept)
    for call in kept:
        if (
            call.loops
            and _is_computed_anew(call)
            and _is_alone(call)
            and call.constant("create_graph", 2, False) is False
        ):
            yield Finding(
                "The graph is kept, and nothing runs backward through it again: its memory is held for another step",
                call.place.location,
                help="leave out `retain_graph`; if an error asks for it, something of the last step is still in the "
                "graph: detach it (a hidden state, a buffer)",
            )


def _is_computed_anew(call: Call) -> bool:
    """Whether each turn of the innermost loop has a graph of its own: not one loss after the other of the same."""
    func, loop = call.node.func, call.loops[0].node
    given = func.value if isinstance(func, ast.Attribute) else func
    if any(isinstance(part, ast.Call) and isinstance(part.func, ast.Name) for part in walk(given)):
        return True  # `model(x).mean().backward(retain_graph=True)`
    lines = (n for n in walk(loop) if isinstance(n, ast.Assign | ast.AugAssign))
    targets = [t for n in lines for t in (n.targets if isinstance(n, ast.Assign) else [n.target])]
    if any(isinstance(part, ast.BinOp) or (isinstance(part, ast.Call) and part.args) for part in walk(given)):
        targets += [loop.target] if isinstance(loop, ast.For) else []  # computed right here, of what the turn brings
    made = {ast.unparse(part) for target in targets for part in walk(target)}
    inside = {id(part) for node in walk(given) if isinstance(node, ast.Subscript) for part in walk(node.slice)}
    return any(ast.unparse(part) in made for part in walk(given) if id(part) not in inside)


def _is_alone(call: Call) -> bool:
    """Whether the outermost loop around it has no other backward, neither there nor in what it calls."""
    loop = call.loops[-1].node
    text = ast.unparse(loop)
    if text.count("backward") != 1 or any(word in text for word in _SECOND):
        return False
    for node in walk(loop):
        if isinstance(node, ast.Call):
            named = call.file.resolve(node.func, call.context)
            if isinstance(named, Function) and "backward" in named.text:
                return False
    return True
