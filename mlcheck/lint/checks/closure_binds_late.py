"""closure-binds-late: functions that a loop makes all read the value that its variable has after the last turn."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.late_closures import late_closures

LOOKS_AT = "function made in a loop"
WORDS = ("lambda", "_hook(")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for late in late_closures(facts.sites):
        facts.sites.seen[LOOKS_AT] += 1
        what = "lambda" if isinstance(late.closure, ast.Lambda) else f"`{late.closure.name}`"
        yield Finding(
            f"`{late.name}` is looked up when the function runs: all that this loop makes use its last value",
            late.file.place(late.read, late.context).location,
            help=f"bind it as a default: give the {what} a parameter `{late.name}={late.name}`",
        )
