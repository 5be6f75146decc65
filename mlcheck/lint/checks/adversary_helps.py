"""adversary-helps: the losses of a generator and of its discriminator push the scores of fakes the same way."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import File
from mlcheck.lint.sites.lines import Lines, all_lines
from mlcheck.lint.sites.training.adversaries import allied, held_by

LOOKS_AT = "pair of adversaries"
WORDS = ("discriminator", "critic", "D(", "netD", "fake", "gen_")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        if file.text.count(".backward(") < 2:
            continue
        held = facts.sites.once(held_by)
        for blocks in _together(file) if len(held) > 1 else ():
            for found in allied(blocks, held):
                facts.sites.seen[LOOKS_AT] += 1
                one, other = ("generator", "discriminator") if found.is_generator else ("discriminator", "generator")
                way = "lowers" if found.is_generator else "raises"
                yield Finding(
                    f"This loss of the {one} {way} what `{found.discriminator}` says of generated samples, as that of "
                    f"the {other} does: the two do not work against each other",
                    found.line.location,
                    help="a discriminator lowers its score for generated samples; a generator raises it",
                    related=(found.other.location,),
                )


def _together(file: File) -> Iterator[list[Lines]]:
    """What trains both: a function with two backward passes, or the functions of one class with a pass each."""
    training = [lines for lines in all_lines(file) if ".backward(" in lines.text]
    yield from ([lines] for lines in training if lines.text.count(".backward(") > 1)
    single = [lines for lines in training if lines.function is not None and lines.text.count(".backward(") == 1]
    for cls in dict.fromkeys(lines.function.cls for lines in single if lines.function is not None):
        own = [lines for lines in single if lines.function is not None and lines.function.cls is cls]
        if len(own) > 1:
            yield own
