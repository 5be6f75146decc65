"""ignore-without-reason: a finding is hidden, and nobody says why."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.comments import ignoring

LOOKS_AT = "ignore comment"
_A_REASON = 6  # letters: `ok`, `fine` and `error` say nothing


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file, found in ignoring(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        if len(found.reason) < _A_REASON:
            line = file.module.source.text.splitlines()[found.line - 1]
            yield Finding(
                f"`{found.text}` gives no reason",
                Location(found.path, found.line, line.index("#") + 1, found.line, len(line) + 1),
                help=f"write the reason after it: `{found.text} the teacher is frozen already`",
            )
