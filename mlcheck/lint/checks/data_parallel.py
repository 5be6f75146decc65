"""data-parallel: several GPUs behind one process."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts


def check(facts: Facts) -> Iterator[Finding]:
    for call in facts.sites.calls("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"):
        yield Finding(
            "`DataParallel` copies the model to every GPU in every step and gathers all outputs on one",
            call.place.location,
            help="use `DistributedDataParallel`, one process for each GPU, also within one machine",
        )
