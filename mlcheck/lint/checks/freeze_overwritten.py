"""freeze-overwritten: parameters that were frozen are set free again before anything was trained."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import walk

LOOKS_AT = "frozen parameter"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for file in facts.sites.mentioning(["requires_grad", "require_grad"]))
    known = {freed.spot for freed, _ in facts.training.unfrozen}
    written = [pair for pair in _written(facts) if pair[0].spot not in known]
    for freed, frozen in (*facts.training.unfrozen, *written):
        yield Finding(
            "This unfreezes all parameters, including those that were frozen before: the freezing has no effect",
            freed.location,
            help="freeze after this, or leave out the parameters that were frozen",
            related=(frozen.location,),
        )


def _written(facts: Facts) -> Iterator[tuple[Place, Place]]:
    """Two loops, one after the other in a block: some parts of a model are frozen, then all of it is set free."""
    for file in facts.sites.mentioning([".requires_grad = True"]):
        for function in file.functions:
            for first, second in zip(function.node.body, function.node.body[1:], strict=False):
                frozen, freed = _loop(first, False), _loop(second, True)
                if frozen is None or freed is None or not isinstance(second, ast.For):
                    continue
                whole = ast.unparse(second.iter).removesuffix(".parameters()")
                assert isinstance(first, ast.For)
                if whole.isidentifier() and ast.unparse(first.iter).startswith(f"{whole}."):
                    yield function.place(freed), function.place(frozen)


def _loop(node: ast.stmt, free: bool) -> ast.stmt | None:
    """The assignment to `requires_grad` in a loop over parameters that does nothing else."""
    while isinstance(node, ast.For) and len(node.body) == 1 and not node.orelse:
        inner = node.body[0]
        if isinstance(inner, ast.Assign):
            target = inner.targets[0]
            sets = isinstance(target, ast.Attribute) and target.attr == "requires_grad"
            constant = isinstance(inner.value, ast.Constant) and inner.value.value is free
            over = any(isinstance(part, ast.Attribute) and part.attr == "parameters" for part in walk(node.iter))
            return inner if sets and constant and over and ast.unparse(node.iter).endswith("parameters()") else None
        node = inner
    return None
