"""backward-without-step: gradients are computed batch after batch, and the optimizer never steps."""

import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Backward, Facts
from mlcheck.lint.training import Optimizer

LOOKS_AT = "backward pass"


def check(facts: Facts) -> Iterator[Finding]:
    stepped = {step.key for step in facts.steps}
    used = {facts.training.optimizers[key].place.spot for key in stepped if key in facts.training.optimizers}
    first: dict[object, Backward] = {}
    told: set[object] = set()
    for backward in facts.backwards:
        for key in backward.reached:
            optimizer = facts.training.optimizers.get(key)
            if optimizer is None or optimizer.place.spot in used or optimizer.handed_on or not optimizer.name:
                continue
            before = first.setdefault(key, backward)
            if key in told or backward.when.later_turn(before.when) is None or _may_step(facts, optimizer):
                continue
            told.add(key)
            yield Finding(
                f"Gradients are computed for `{optimizer.name}`, which never steps: nothing is learnt",
                before.place.location,
                help=f"call `{optimizer.name}.step()` after `backward()`",
                related=(optimizer.place.location,),
            )


def _may_step(facts: Facts, optimizer: Optimizer) -> bool:
    """Whether any text of the program may step it after all, or use the gradients without it."""
    name = re.escape(optimizer.name)
    word = re.compile(rf"\b{name}\b[^\n]*\.step\b|\bstep\w*\([^\n]*\b{name}\b|\.grad\b(?!\s*=\s*None)|\.{name}\b")
    own = re.compile(rf"self\.{name}\b")
    for file in facts.sites.files.values():
        for found in word.finditer(file.text):
            if not (found[0] == f".{optimizer.name}" and own.match(file.text, found.start() - 4)):
                return True
    return False
