"""split-ignored: a loader over `subset.dataset`, which is all of the data again."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.loaders import loaders
from mlcheck.lint.sites.origins import origins

LOOKS_AT = "data loader"
_PARTS = ("torch.utils.data.random_split", "torch.utils.data.Subset")


def check(facts: Facts) -> Iterator[Finding]:
    for loader in facts.sites.once(loaders):
        data, file = loader.dataset, loader.call.file
        if not isinstance(data, ast.Attribute) or data.attr != "dataset":
            continue
        found = origins(file, data.value, loader.call.context)
        if found and all(
            origin.name in ("torch.utils.data.random_split", "torch.utils.data.Subset") for origin in found
        ):
            yield Finding(
                f"`{ast.unparse(data)}` is the whole data set again, not the part that was split off",
                loader.call.place.location,
                help=f"give the loader `{ast.unparse(data.value)}` itself",
            )
