"""path-drops-folder: a part of a path that begins with `/` drops the folder before it."""

import ast
from collections.abc import Iterator
from itertools import pairwise

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Context, File

LOOKS_AT = "path"
WORDS = ("/",)
# Whole paths, which are meant to drop what is before them.
_ROOT = pattern(
    r"/(?:home|mnt|media|tmp|usr|opt|root|var|etc|dev|proc|sys|run|srv|bin|lib|storage|content|kaggle|workspaces?|scratch"
    r"|gpfs|nfs|lustre|Users|Volumes|private)(?:/|$)"
)
_DIVIDED = pattern(r"/ ?[\"']/")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        for call in file.calls("join"):
            parts = call.node.args
            if file.called(call.node, call.context) not in ("os.path.join", "posixpath.join") or len(parts) < 2:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            for before, part in pairwise(parts):
                if _is_absolute(part) and not isinstance(before, ast.Constant | ast.Starred):
                    yield _dropped(file, call.context, before, part)
        if _DIVIDED.search(file.text):
            yield from _divided(facts, file)


def _divided(facts: Facts, file: File) -> Iterator[Finding]:
    """`folder / "/name"`, of a `Path`: numbers are not divided by text."""
    for scope, context in file.scopes():
        text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
        for node in file.nodes_in(scope) if _DIVIDED.search(text) else ():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_absolute(node.right):
                facts.sites.seen[LOOKS_AT] += 1
                yield _dropped(file, context, node.left, node.right)


def _is_absolute(part: ast.expr) -> bool:
    """`"/name"` and `f"/{name}"`; a lone `/` is a root that somebody asks for."""
    first = part.values[0] if isinstance(part, ast.JoinedStr) and part.values else part
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return False
    return first.value.startswith("/") and (first is not part or len(first.value) > 1) and not _ROOT.match(first.value)


def _dropped(file: File, context: Context, before: ast.expr, part: ast.expr) -> Finding:
    return Finding(
        f"This part of the path begins with `/`, so `{ast.unparse(before)}` before it is dropped",
        file.place(part, context).location,
        help="leave out the first `/`",
    )
