"""unreadable-file: a file that no rule could look at."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts


def check(facts: Facts) -> Iterator[Finding]:
    for file in facts.unreadable:
        yield Finding(
            f"Nothing in this file was checked: {file.reason}",
            Location(file.path, file.line, file.column),
            help="put it right, or leave it out of the run",
        )
