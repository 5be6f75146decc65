"""set-epoch-missing: a distributed sampler that shuffles alike in every epoch."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.ranks import is_for_evaluation, owned

LOOKS_AT = "distributed sampler"
_SAMPLER = "torch.utils.data.DistributedSampler"
_EPOCHS = re.compile(r"\bfor\s+(?:\w*epoch\w*|ep|e)\s+in\b|while[^\n]*epoch", re.IGNORECASE)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(_SAMPLER))
    facts.sites.seen["distributed sampler"] = len(calls)
    texts = [file.text for file in facts.sites.files.values()]
    if not calls or facts.sites.once(owned):
        return
    if any("set_epoch" in text for text in texts):
        yield from _always_alike(facts)
        return
    if not any(_EPOCHS.search(text) for text in texts):
        return
    for call in calls:
        if call.constant("shuffle", 3, True) is not False and not is_for_evaluation(call):
            yield Finding(
                "`set_epoch` is never called: every epoch shuffles the data in the same order",
                call.place.location,
                help="call `sampler.set_epoch(epoch)` at the beginning of each epoch",
            )


def _always_alike(facts: Facts) -> Iterator[Finding]:
    """`set_epoch(0)` in every epoch, and no other."""
    told = [call for file in facts.sites.mentioning(["set_epoch"]) for call in file.calls("set_epoch")]
    if all(len(call.node.args) == 1 and isinstance(call.node.args[0], ast.Constant) for call in told):
        for call in told:
            if any(
                isinstance(loop.node, ast.For) and _EPOCHS.search(f"for {ast.unparse(loop.node.target)} in")
                for loop in call.loops
            ):
                yield Finding(
                    "`set_epoch` is given the same number in every epoch: each shuffles the data in the same order",
                    call.place.location,
                    help="pass the number of the epoch",
                )
