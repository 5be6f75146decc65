"""Finds hyperparameters that are declared and that nothing in the trial's code mentions."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.seen import Experiment

_OF_THE_FRAMEWORK = {"global_batch_size"}


def check(experiment: Experiment) -> Iterator[Finding]:
    declared, code = experiment.hyperparameters(), experiment.code
    if declared is None or code is None or not code.bases or code.asks_by_computed_name():
        return
    words = code.words() | {near.key for _, near in experiment.undeclared() if near}
    for entry in declared:
        if entry.key not in words and entry.key not in _OF_THE_FRAMEWORK:
            yield Finding(
                f"the hyperparameter `{entry.key}` is read nowhere: whatever its value, nothing changes",
                experiment.document.at(entry.key_node),
                help=f'read it with `self.context.get_hparam("{entry.key}")`, or take it out',
            )
