"""pin-memory-off: batches are copied to the GPU from memory that cannot be copied from in the background."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.data.loaders import LOADER, loaders

LOOKS_AT = "training loader"
WORDS = ("DataLoader",)
_MOVES = pattern(r"\.cuda\(|\.to\(\s*(?:self\.)?(?:device|args\.device|dev|rank|local_rank|[\"']cuda)")


def check(facts: Facts) -> Iterator[Finding]:
    trained = [loader for loader in facts.sites.once(loaders) if loader.trained and loader.call.name == LOADER]
    facts.sites.seen[LOOKS_AT] = len(trained)
    for loader in trained:
        call = loader.call
        if call.argument("pin_memory", 7) is not None or call.argument("collate_fn", 6) is not None:
            continue
        if not loader.workers or not any(_MOVES.search(file.text) for file in facts.sites.files.values()):
            continue
        yield Finding(
            "The batches of this loader are not pinned: their copy to the GPU makes the step wait"
            + (", whatever `non_blocking` says" if "non_blocking=True" in call.file.text else ""),
            call.place.location,
            help="`pin_memory=True`, and `.to(device, non_blocking=True)` for the batch",
        )
