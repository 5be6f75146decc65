"""Finds an entrypoint whose file or class is not there, where one of nearly the same name is."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.experiment.document import Entry
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    entry, code = experiment.document.find("entrypoint"), experiment.code
    if entry is not None and code is None:
        yield from _no_file(experiment, entry)
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


def _no_file(experiment: Experiment, entry: Entry) -> Iterator[Finding]:
    """A file that is nowhere, told only where one beside the config has nearly its name: a package may be meant."""
    near = experiment.file_nearby()
    if near is not None:
        written, found = near
        yield Finding(
            f"there is no `{written}` beside the config; did you mean `{found}`?",
            experiment.document.at(entry.value),
            help="name the file as it is written there",
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
