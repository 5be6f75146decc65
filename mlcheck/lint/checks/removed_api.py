"""removed-api: a call of what PyTorch no longer has."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.api import TABLE, uses, version
from mlcheck.lint.sites.training.scalar_losses import indexed_losses

LOOKS_AT = "PyTorch file"
_SCALARS = "1.0"


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum("torch" in file.text for file in facts.sites.files.values())
    target = version(facts.torch.meant)
    rows = tuple(row for row in TABLE if row.removed and (not target or version(row.removed) <= target))
    for call, row in uses(facts.sites, rows):
        what = f"`{row.argument}=` of `{row.name}`" if row.argument else f"`{row.name}`"
        yield Finding(
            f"{what} was removed by PyTorch {row.removed}",
            call.place.location,
            help=f"use `{row.instead}`",
        )
    if not target or version(_SCALARS) <= target:
        for loss, place in indexed_losses(facts.sites):
            yield Finding(
                f"`{loss}.data[0]`: a loss is a scalar and cannot be indexed since PyTorch {_SCALARS}",
                place.location,
                help=f"use `{loss}.item()`",
            )
