"""adversary-helps: the losses of a generator and of its discriminator push the scores of fakes the same way."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.lines import all_lines
from mlcheck.lint.sites.training.adversaries import allied, held_by

LOOKS_AT = "pair of adversaries"
WORDS = ("discriminator", "critic", "D(", "netD", "fake", "gen_")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        if file.text.count(".backward(") < 2:
            continue
        held = facts.sites.once(held_by)
        for lines in all_lines(file):
            if lines.text.count(".backward(") < 2 or len(held) < 2:
                continue
            for found in allied(lines, held):
                facts.sites.seen[LOOKS_AT] += 1
                one, other = ("generator", "discriminator") if found.is_generator else ("discriminator", "generator")
                way = "lowers" if found.is_generator else "raises"
                yield Finding(
                    f"This loss of the {one} {way} what `{found.discriminator}` says of generated samples, as that of "
                    f"the {other} does: the two do not work against each other",
                    file.place(found.line, lines.context).location,
                    help="a discriminator lowers its score for generated samples; a generator raises it",
                    related=(file.place(found.other, lines.context).location,),
                )
