"""step-without-backward: an optimizer steps, a loss is computed, and nothing computes gradients of it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Step
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Class, File, Function

LOOKS_AT = "optimizer step"
_ELSEWHERE = (
    "backward",
    ".grad",
    "closure",
    "autograd",
    "transformers",
    "deepspeed",
    "accelerat",
    "fabric",
    "lightning",
)
"""Words of other ways to come by gradients."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = len({step.place.spot for step in facts.steps})
    if facts.backwards or not facts.losses or any(True for _ in facts.sites.mentioning(_ELSEWHERE, tests=True)):
        return
    if any(_is_handed_on(file) for file in facts.sites.mentioning(["loss"])):
        return
    walks: dict[tuple[str, int, int], list[Step]] = {}
    for step in facts.steps:
        walks.setdefault(step.place.spot, []).append(step)
    for steps in walks.values():
        last = steps[-1]
        made = facts.training.optimizers.get(last.key)
        given = last.place.node.args if isinstance(last.place.node, ast.Call) else []
        if last.scaler or given or (made is not None and made.handed_on):
            continue
        yield Finding(
            "This step finds no gradients: nothing in the program calls `backward()` on a loss",
            last.place.location,
            help="call `loss.backward()` before the step",
            related=(facts.losses[0].place.location,),
        )


def _is_handed_on(file: File) -> bool:
    """Whether code that is not known gets a loss, and may differentiate it."""
    top = [statement for statement in file.module.source.tree.body if not isinstance(statement, _DEFINITIONS)]
    blocks = [(function.nodes, function.inner) for function in file.functions]
    for nodes, context in (*blocks, ([node for each in top for node in walk(each)], file.walk.module)):
        for node in nodes:
            if not isinstance(node, ast.Call):
                continue
            losses = [arg for arg in node.args if isinstance(arg, ast.Name) and "loss" in arg.id.lower()]
            named = file.resolve(node.func, context) if losses else "torch"
            library = isinstance(named, str) and named.startswith(("torch", "builtins.", "numpy.", "math."))
            if not library and not isinstance(named, Function | Class):
                return True
    return False
