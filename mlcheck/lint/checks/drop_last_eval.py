"""drop-last-eval: the last samples of an evaluation set are left out."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.loaders import loaders

LOOKS_AT = "held-out loader"
WORDS = ("DataLoader",)


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(loader.split in ("val", "test") for loader in facts.sites.once(loaders))
    for loader in facts.sites.once(loaders):
        fixed = "deepspeed" in loader.call.file.text
        if loader.split in ("val", "test") and not loader.trained and not fixed:
            alone = loader.call.constant("batch_size", 1, 1) == 1
            if loader.call.constant("drop_last", 8, False) is True and not alone:
                yield Finding(
                    "`drop_last=True` leaves samples out of the evaluation: which ones depends on the batch size",
                    loader.call.place.location,
                    help="leave `drop_last` at False for validation and test data",
                )
