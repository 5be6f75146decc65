"""The installed packages that a running program imports by name in its own files, with their versions."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version

from mlcheck.core.pins import normal
from mlcheck.core.source_text import is_code, read_source
from mlcheck.trial.traceback import is_user_file


def imported_packages(entry: str = "") -> dict[str, str]:
    """Package to version, of what the user's modules loaded so far and the script `entry` import."""
    files = {path for module in list(sys.modules.values()) if (path := getattr(module, "__file__", None))}
    own = {path for path in files if path.endswith(".py") and is_user_file(path)}
    roots = {root for path in (own | {entry} if is_code(entry) else own) for root in _imports(path)}
    installed = packages_distributions()
    names = {normal(name): name for root in roots & sys.modules.keys() for name in installed.get(root, ())}
    return {name: version(names[name]) for name in sorted(names)}


def _imports(path: str) -> Iterator[str]:
    """The first part of every name imported, wherever in the file it stands."""
    try:
        tree = ast.parse(read_source(path))
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
