"""deprecated-api: a call of what PyTorch is going to take away."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.api import TABLE, uses, version

LOOKS_AT = "PyTorch file"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum("torch" in file.text for file in facts.sites.files.values())
    target = version(facts.torch.meant)
    rows = tuple(row for row in TABLE if not target or version(row.deprecated) <= target)
    for call, row in uses(facts.sites, rows):
        if row.removed and (not target or version(row.removed) <= target):
            continue
        what = f"`{row.argument}=` of `{row.name}`" if row.argument else f"`{row.name}`"
        yield Finding(
            f"{what} has been deprecated since PyTorch {row.deprecated}",
            call.place.location,
            help=f"use `{row.instead}`",
        )
