"""What the rules about experiment configs look at: the document, and the trial that it starts."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass

from mlcheck.experiment.document import Document, Entry
from mlcheck.experiment.trial_code import Read, TrialCode, read_trial

_ENTRY = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True)
class Experiment:
    """`code` is None where the entrypoint is no `module:Class`, or its file was not found or not read."""

    document: Document
    module: str = ""
    name: str = ""
    code: TrialCode | None = None

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


def see(document: Document) -> Experiment:
    """Find the code of a config: in its own folder, as the command line would send it, else in one of two above."""
    match = _ENTRY.fullmatch(document.text("entrypoint").strip())
    if not match:
        return Experiment(document)
    folder = os.path.dirname(document.path) or os.curdir
    for _ in range(3):
        code = read_trial(folder, match["module"], match["name"])
        if code:
            return Experiment(document, match["module"], match["name"], code)
        folder = os.path.normpath(os.path.join(folder, os.pardir))
    return Experiment(document, match["module"], match["name"])
