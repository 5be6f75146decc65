"""shuffle-returns-none: the result of shuffling in place is used, which is None."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, File, Sites
from mlcheck.lint.sites.origins import callers, origins, returns

LOOKS_AT = "shuffling in place"
WORDS = ("shuffle(",)
_GENERATORS = ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")
_GO_THROUGH = ("all", "any", "list", "tuple", "set", "deque")


def check(facts: Facts) -> Iterator[Finding]:
    calls = [*facts.sites.calls("random.shuffle", "numpy.random.shuffle"), *_of_generators(facts.sites)]
    facts.sites.seen[LOOKS_AT] = len(calls)
    if not any("torch" in file.text for file in facts.sites.files.values()):
        return
    used = {file: _used(file) for file in {call.file for call in calls}}
    for call in calls:
        if call.node in used[call.file] or _is_handed_out(call):
            yield Finding(
                f"`{ast.unparse(call.node.func)}` shuffles in place and returns None, which is what is used here",
                call.place.location,
                help="shuffle on a line of its own, or draw a new order: `rng.permutation(...)`",
            )


def _of_generators(sites: Sites) -> Iterator[Call]:
    """`rng.shuffle(order)`, of a generator of Python's or NumPy's own."""
    for file in sites.mentioning([".shuffle("]):
        for call in file.calls("shuffle"):
            made = origins(file, call.owner, call.context) if call.owner is not None else []
            if made and all(each.name in _GENERATORS for each in made):
                yield call


def _is_handed_out(call: Call) -> bool:
    """Whether a function returns it, and a call of that does something with what it returns."""
    function = call.function
    if function is None or not any(answer is call.node for answer in returns(function)):
        return False
    return any(asked.node not in asked.file.statements for asked in callers(call.file.sites, function))


def _used(file: File) -> set[ast.AST]:
    """What a name is bound to, a call is given or a function returns, by itself or gathered in a list."""
    found: set[ast.AST] = set()
    for node in walk(file.module.source.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if name != "_":
                found.add(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")) if not file.uses[name]:
                continue  # nobody reads that list
            case ast.Call(func=ast.Name(id=name)) if name in _GO_THROUGH and node in file.statements:
                continue  # `all(shuffle(each) for each in groups)`, which goes through them and no more
            case ast.Call(args=args):
                found.update(args)
            case ast.Return(value=ast.ListComp() as value):
                found.add(value)
    gathered = [node.elt for node in found if isinstance(node, ast.ListComp | ast.GeneratorExp)]
    return found.union(gathered)
