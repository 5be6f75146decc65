"""no-sync-missing: under accumulation every batch pays for an all-reduce that the next one overwrites."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.ranks import DDP
from mlcheck.lint.training import steps_by_choice

LOOKS_AT = "distributed model"
WORDS = ("DistributedDataParallel",)
_WAYS = ("no_sync", "require_backward_grad_sync", "accumulate(", "register_comm_hook", "FullyShardedDataParallel")


def check(facts: Facts) -> Iterator[Finding]:
    wrapped = list(facts.sites.calls(DDP))
    facts.sites.seen[LOOKS_AT] = len(wrapped)
    if not wrapped or any(True for _ in facts.sites.mentioning(_WAYS, tests=True)):
        return
    for step in {step.place.spot: step for step in steps_by_choice(facts).values()}.values():
        backward = next((grads.place for grads in step.grads if grads.choice is not None and grads.place), None)
        yield Finding(
            "The ranks synchronise gradients after every backward pass, but the optimizer steps only once in several",
            (backward or step.place).location,
            help="run all but the last backward of a step under `with model.no_sync():`",
            related=(step.place.location, wrapped[0].place.location),
        )
