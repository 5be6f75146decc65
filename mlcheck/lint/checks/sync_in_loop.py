"""sync-in-loop: a training step that waits for the device again and again, to read numbers."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.guards import conditions

LOOKS_AT = "training loop"
WORDS = (".backward(",)
_READS = ("item", "tolist", "numpy")
_MANY = 2  # one number a step, for the progress bar, is a price that most pay knowingly


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning([".backward("]):
        if "cuda" not in file.text and "device" not in file.text:
            continue
        loops = {call.loops[0].node for call in file.calls("backward") if call.loops}
        facts.sites.seen[LOOKS_AT] += len(loops)
        for loop in loops:
            reads = [call for call in file.calls(*_READS) if _is_every_turn(call, loop)]
            if len(reads) >= _MANY:
                yield Finding(
                    f"`.{_name(reads[0])}()` in every step waits until the device has finished, "
                    f"as do other reads in this loop ({len(reads)} in all)",
                    reads[0].place.location,
                    help="add up `loss.detach()` on the device, and read it only every n steps",
                    related=tuple(call.place.location for call in reads[1:]),
                )


def _is_every_turn(call: Call, loop: ast.AST) -> bool:
    """Directly in this loop, and under no condition inside it."""
    if not call.loops or call.loops[0].node is not loop or not isinstance(call.node.func, ast.Attribute):
        return False
    inside = {test for test in conditions(call.context) if test.lineno > getattr(loop, "lineno", 0)}
    return not inside and not (isinstance(loop, ast.While) and call.node in walk(loop.test))


def _name(call: Call) -> str:
    func = call.node.func
    return func.attr if isinstance(func, ast.Attribute) else ""
