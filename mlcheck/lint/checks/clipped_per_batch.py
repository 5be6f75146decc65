"""clipped-per-batch: the gradients of a window of batches are clipped after each of them, and not once for the step."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.training.windows import clipped_in_each_turn, measures, windows

LOOKS_AT = "accumulation window"
WORDS = ("clip_grad",)


def check(facts: Facts) -> Iterator[Finding]:
    found = facts.sites.once(windows)
    facts.sites.seen[LOOKS_AT] = sum("clip_grad" in window.step.file.text for window in found)
    for clip, window in clipped_in_each_turn(facts.sites):
        if not measures(clip):
            yield Finding(
                "This clips what is gathered so far after every batch, and not the sum that the optimizer steps on",
                clip.place.location,
                help="clip once, behind the test that lets the optimizer step",
                related=(window.step.place.location,),
            )
