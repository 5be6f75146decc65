"""file-name: a file whose name some tool on the way to the cluster will not take."""

import ast
import os
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place

_ODD = pattern(r"[^A-Za-z0-9_.\-]")


def check(facts: Facts) -> Iterator[Finding]:
    """One finding for a folder, at the first of its files, and one for each other file."""
    told: set[str] = set()
    for file in sorted(facts.sites.files.values(), key=lambda file: file.path):
        if "torch" not in file.text:
            continue
        name = file.module.source.module or os.path.basename(file.path)
        odd = sorted(set(_ODD.findall(name)))
        named = _first_odd(file.path)
        if odd and named not in told:
            told.add(named)
            first = next(iter(file.module.source.tree.body), ast.Pass(lineno=1, col_offset=0))
            yield Finding(
                f"The name of this file, or of its folder, has {', '.join(map(_said, odd))} in it",
                Place(file.path, first, "").location,
                help="letters, digits and `_` alone: such a file can be imported, copied and named on every system",
            )


def _first_odd(path: str) -> str:
    """The outermost folder whose name is odd, or the whole path."""
    parts = path.split("/")
    ends = [number for number, part in enumerate(parts, 1) if _ODD.search(part)]
    return "/".join(parts[: ends[0]] if ends else parts)


def _said(letter: str) -> str:
    return "a space" if letter == " " else f"`{letter}`"
