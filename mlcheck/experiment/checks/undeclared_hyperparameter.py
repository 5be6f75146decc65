"""Finds hyperparameters that the trial asks for and the config does not have."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    section = experiment.document.find("hyperparameters")
    if section is None:
        return
    for read, near in experiment.undeclared():
        hint = f"; did you mean `{read.name}` where `{near.key}` is written?" if near else ""
        yield Finding(
            f"`{experiment.name}` asks for the hyperparameter `{read.name}`, which is not declared{hint}",
            experiment.document.at(near.key_node if near else section.key_node),
            help=f"write `{read.name}` under `hyperparameters`, or ask for a name that is there",
            related=(Location(read.path, read.line, read.column),),
        )
