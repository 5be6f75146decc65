"""require-grad-typo: `require_grad` is an attribute that PyTorch never reads."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk

LOOKS_AT = "frozen parameter"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(1 for file in facts.sites.mentioning(["requires_grad", "require_grad"]))
    for place in facts.training.frozen_in_vain:
        yield Finding(
            "`requires_grad` of a module is an attribute like any other: its parameters keep theirs",
            place.location,
            help="call `requires_grad_(...)` of the module, or set `requires_grad` of each of its parameters",
        )
    files = list(facts.sites.mentioning([".require_grad"], tests=True))
    if not any("torch" in file.text for file in files):
        return
    nodes = [
        (file, node)
        for file in files
        for node in walk(file.module.source.tree)
        if isinstance(node, ast.Attribute) and node.attr == "require_grad"
    ]
    if any(isinstance(node.ctx, ast.Load) for _, node in nodes):
        return
    for file, node in nodes:
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield Finding(
                "`require_grad` is no attribute of a tensor: nothing is frozen or set free by it",
                file.place(node, file.walk.module).location,
                help="write `requires_grad`",
            )
