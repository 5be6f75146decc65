"""Finds an entrypoint whose class is not in its file."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    entry, code = experiment.document.find("entrypoint"), experiment.code
    if entry is None or code is None or code.trial is not None:
        return
    bound = _names(code.module.tree)
    if bound is None or experiment.name in bound:
        return
    classes = list(code.module.classes())
    folded = {name.lower(): name for name in classes}
    near = difflib.get_close_matches(experiment.name.lower(), list(folded), n=1)
    hint = f"; did you mean `{folded[near[0]]}`?" if near else ""
    yield Finding(
        f"{code.module.path} has no `{experiment.name}`{hint}",
        experiment.document.at(entry.value),
        help="name the trial class as it is written there",
        related=(Location(code.module.path, 1),),
    )


def _names(tree: ast.Module) -> set[str] | None:
    """Every name that a module may have; None where a star import brings unknown ones."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [alias.asname or alias.name for alias in node.names]
            if "*" in names:
                return None
            found.update(names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
    return found
