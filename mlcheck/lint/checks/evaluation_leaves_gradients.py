"""evaluation-leaves-gradients: without an optimizer the step is left out, and the backward pass before it is not."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_none, last_name, walk
from mlcheck.lint.sites import OPEN, Call, Class, Function, Sites
from mlcheck.lint.sites.blocks import blocks

LOOKS_AT = "step that may be left out"
WORDS = ("backward(",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if not all(_is_asked_for(call) for call in _clearings(facts.sites)):
        return
    for file in facts.sites.mentioning([".backward("]):
        for call in file.calls("backward") if "None" in file.text else ():
            branch = _step_behind(call)
            if call.function is None or branch is None or file.is_test:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            given = list(_given(call.function, branch.test))
            stepping = [each for each, optimizer in given if not is_none(optimizer)]
            without = [
                each
                for each, optimizer in given
                if is_none(optimizer) and not any(each.context.excludes(other.context) for other in stepping)
            ]
            if without and stepping:
                yield Finding(
                    "This backward pass runs without an optimizer too, in an evaluation, and nothing clears what it "
                    "leaves: the next training step takes those gradients along",
                    call.place.location,
                    help=f"run it under the same test: `{ast.unparse(branch).splitlines()[0]}`",
                    related=(without[0].place.location,),
                )


def _clearings(sites: Sites) -> Iterator[Call]:
    for file in sites.mentioning(["zero_grad("]):
        yield from file.calls("zero_grad")


def _is_asked_for(clearing: Call) -> bool:
    """Whether it runs only where there is an optimizer."""
    return any(
        outer.kind == "if" and isinstance(outer.node, ast.If) and bool(_asked(outer.node.test))
        for outer in clearing.context.outwards()
    )


def _asked(test: ast.expr) -> str:
    """`self.opt` of `if self.opt is not None` and of `if self.opt`."""
    match test:
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.NotEq()], comparators=[none]) if is_none(none):
            test = left
    return ast.unparse(test) if isinstance(test, ast.Name | ast.Attribute) else ""


def _step_behind(call: Call) -> ast.If | None:
    """The branch behind a backward pass, in the same block, that steps and clears if there is an optimizer."""
    nodes = call.function.nodes if call.function is not None else []
    for block in (block for node in nodes if isinstance(node, ast.stmt) for block in blocks(node)):
        at = next((n for n, line in enumerate(block) if isinstance(line, ast.Expr) and line.value is call.node), None)
        for line in block[at + 1 :] if at is not None else ():
            name = _asked(line.test) if isinstance(line, ast.If) and not line.orelse else ""
            done = [part for part in walk(line) if isinstance(part, ast.Call)] if name else []
            owned = {last_name(part.func) for part in done if ast.unparse(part.func).startswith(f"{name}.")}
            if isinstance(line, ast.If) and {"step", "zero_grad"} <= owned:
                return line
    return None


def _given(function: Function, test: ast.expr) -> Iterator[tuple[Call, ast.expr | None]]:
    """What each call gives for the optimizer that the test asks for: of the function, or of the class that keeps it."""
    name = _asked(test)
    kept = function.cls
    if kept is not None and name.startswith(f"{function.receiver}."):
        sets = kept.attributes.get(name.partition(".")[2], [])
        made = kept.methods.get("__init__")
        if made is None or len(sets) != 1 or not isinstance(sets[0][1].value, ast.Name):
            return
        yield from _arguments(made, sets[0][1].value.id, list(_making(kept)), 1)
    elif name in function.parameters:
        calls = function.file.sites.calls_of(function) or []
        yield from _arguments(function, name, calls, 1 if function.receiver else 0)


def _making(cls: Class) -> Iterator[Call]:
    for file in cls.file.sites.calling([cls.name]):
        yield from (call for call in file.calls(cls.name) if file.resolve(call.node.func, call.context) is cls)


def _arguments(
    function: Function, name: str, calls: list[Call], skipped: int
) -> Iterator[tuple[Call, ast.expr | None]]:
    """What is given for a parameter, by default or in the call; nothing of a call that does not tell."""
    position = list(function.parameters).index(name) - skipped if name in function.parameters else -1
    for call in calls if position >= 0 else ():
        given = call.argument(name, position)
        if given is not OPEN:
            yield call, given if given is not None else function.parameters[name]
