"""Finds what the cluster refuses: unknown keys, wrong or missing values, and a code folder that is too large."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.folder import sent_files
from mlcheck.experiment.seen import Experiment

_MIB = 2**20
_MOST = 95  # MiB of a message of 128, which is sent in base64


def check(experiment: Experiment) -> Iterator[Finding]:
    for problem in experiment.problems():
        yield Finding(problem.message, experiment.document.at(problem.node), help=problem.help)
    entry = experiment.document.find("entrypoint")
    if entry is None or experiment.code is None:
        return
    folder = experiment.code.folder
    sizes = sorted(((size, path) for path, size in sent_files(folder)), reverse=True)
    whole = sum(size for size, _ in sizes)
    if whole > _MOST * _MIB:
        named = [f"{os.path.relpath(path, folder)} ({size / _MIB:.0f} MiB)" for size, path in sizes[:3] if size > _MIB]
        largest = f"; the largest are {', '.join(named)}" if named else ""
        yield Finding(
            f"the code folder {folder} has {whole / _MIB:.0f} MiB, and at most {_MOST} are sent{largest}",
            experiment.document.at(entry.value),
            help="name what the run does not need in a `.detignore` there, and give data by `bind_mounts`",
            numbers={"MiB": whole / _MIB},
        )
