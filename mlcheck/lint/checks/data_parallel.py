"""data-parallel: several GPUs behind one process."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts

LOOKS_AT = "DataParallel model"
WORDS = ("DataParallel",)


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        yield Finding(
            "`DataParallel` copies the model to every GPU in every step and gathers all outputs on one",
            call.place.location,
            help="use `DistributedDataParallel`, one process for each GPU, also within one machine",
        )
