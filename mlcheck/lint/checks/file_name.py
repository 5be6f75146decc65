"""file-name: a file whose name some tool on the way to the cluster will not take."""

import ast
import os
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts, Place


def check(facts: Facts) -> Iterator[Finding]:
    for file in facts.sites.files.values():
        if "torch" not in file.text:
            continue
        name = file.module.source.module or os.path.basename(file.path)
        odd = sorted(set(re.sub(r"[A-Za-z0-9_.\-]", "", name)))
        if odd:
            first = next(iter(file.module.source.tree.body), ast.Pass(lineno=1, col_offset=0))
            yield Finding(
                f"The name of this file, or of its folder, has {', '.join(map(_said, odd))} in it",
                Place(file.path, first, "").location,
                help="letters, digits and `_` alone: such a file can be imported, copied and named on every system",
            )


def _said(letter: str) -> str:
    return "a space" if letter == " " else f"`{letter}`"
