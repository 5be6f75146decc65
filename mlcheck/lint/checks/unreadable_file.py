"""unreadable-file: a file that no rule could look at."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.lint.facts import Facts


def check(facts: Facts) -> Iterator[Finding]:
    read = {file.path for file in facts.sites.files.values()}
    for file in facts.unreadable:
        said = "Python cannot run this file" if file.path in read else "Nothing in this file was checked"
        yield Finding(
            f"{said}: {file.reason}",
            Location(file.path, file.line, file.column),
            help="fix it, or exclude it",
        )
