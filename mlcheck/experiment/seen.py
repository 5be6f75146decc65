"""What the rules about experiment configs look at: the document, and the trial that it starts."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mlcheck.experiment.computed import computed_with
from mlcheck.experiment.dialect import dialect, searcher_problems
from mlcheck.experiment.document import Document, Entry
from mlcheck.experiment.fields import EXPERIMENT
from mlcheck.experiment.launch import launched, misspelt_file
from mlcheck.experiment.shape import Problem
from mlcheck.experiment.trial_code import Read, TrialCode, only_trial, read_trial


@dataclass(frozen=True)
class Experiment:
    """`code` is None where the entrypoint is no `module:Class`, or its file was not found or not read."""

    document: Document
    module: str = ""
    name: str = ""
    code: TrialCode | None = None
    version: str = ""

    kind: ClassVar[str] = "experiment"

    def beside(self) -> list[str]:
        """Other files that are looked at with it: what its containers run first."""
        hook = os.path.join(os.path.dirname(self.document.path), "startup-hook.sh")
        return [hook] if os.path.isfile(hook) else []

    def problems(self) -> Iterator[Problem]:
        """What the cluster would refuse, whatever its own defaults and templates add."""
        yield from EXPERIMENT.problems(self.document.root, "", complete=False)
        yield from searcher_problems(self.document, dialect(self.document, self.version))

    def file_nearby(self) -> tuple[str, str] | None:
        """The entrypoint's file, where there is none of that name, and the file beside the config that may be meant."""
        started = f"{self.module}.py" if self.module else launched(self.document.text("entrypoint")).entry
        return misspelt_file(started, self.document.path)

    def computed_with(self) -> set[str]:
        """Hyperparameters that the trial computes with as they are written."""
        return computed_with(self.code) if self.code else set()

    def hyperparameters(self) -> list[Entry] | None:
        """What is declared; None where it cannot be told (no such section, or one merged from elsewhere)."""
        section = self.document.find("hyperparameters")
        if section is None or self.document.merges(section.value) or self.document.merges(self.document.root):
            return None
        return self.document.entries(section.value)

    def undeclared(self) -> list[tuple[Read, Entry | None]]:
        """What the trial is sure to ask for in vain, with the declared entry whose name is nearly the same."""
        declared = self.hyperparameters()
        if declared is None or self.code is None:
            return []
        names = [entry.key for entry in declared]
        missing = {read.name: read for read in reversed(self.code.reads()) if read.always and read.name not in names}
        near = {name: difflib.get_close_matches(name, names, n=1, cutoff=0.6) for name in missing}
        return [
            (missing[name], next((entry for entry in declared if entry.key in near[name]), None))
            for name in sorted(missing)
        ]


def see(document: Document, version: str = "") -> Experiment:
    """Find the code of a config: in its own folder, as the command line would send it, else in one of two above.

    A script is its one trial class, where it has one.
    """
    entry, _, named = launched(document.text("entrypoint")).entry.partition(":")
    module = entry.removesuffix(".py")
    if not module or "/" in module:
        return Experiment(document, version=version)
    folder = os.path.dirname(document.path) or os.curdir
    for _ in range(3):
        name = named or only_trial(folder, module)
        code = read_trial(folder, module, name) if name else None
        if code:
            return Experiment(document, module, name, code, version)
        folder = os.path.normpath(os.path.join(folder, os.pardir))
    return Experiment(document, module if named else "", named, version=version)
