"""Hyperparameters that a Determined trial rejects."""

from __future__ import annotations

import pytest
from determined_programs import Load, train

from mlcheck.probe.measure.training.rehearsal import Rehearsal
from mlcheck.trial.trial import RejectedConfig


@pytest.mark.parametrize("where", ["__init__", "train_batch"])
def test_invalid_hp_is_a_rejected_config(load_determined: Load, where: str) -> None:
    arguments = "self, context" if where == "__init__" else "self, batch, epoch_idx, batch_idx"
    source = f"class T(Base):\n    def {where}({arguments}):\n        raise det.InvalidHP('too wide')\n"

    def run() -> None:
        train(load_determined(source), 1)

    with pytest.raises(RejectedConfig, match="too wide"):
        run()


SPACE = """
hyperparameters:
  global_batch_size: 2
  a: {type: int, minval: 0, maxval: 8}
  b: {type: categorical, vals: [x, y]}
"""
PICKY = """
class T(Base):
    def __init__(self, context):
        if context.get_hparam("a") CONDITION:
            raise det.InvalidHP(f"a is {context.get_hparam('a')}")
        self.info = det.get_cluster_info().trial.hparams
        super().__init__(context)
"""


def test_a_point_is_looked_for_that_the_trial_accepts(load_determined: Load) -> None:
    trial = load_determined(PICKY.replace("CONDITION", "< 5"), SPACE)
    (told,) = [notice for notice in trial.notices if "rejects" in notice]
    assert told == (
        "the trial rejects the middle of its search space (a is 4); examined: global_batch_size=2, a=6, b='y'"
    )
    assert trial.objects[0].info["a"] == 6
    assert not [
        notice for notice in load_determined(PICKY.replace("CONDITION", "< 3"), SPACE).notices if "rejects" in notice
    ]
    chosen = load_determined(PICKY.replace("CONDITION", "== 4"), SPACE, hparams={"b": "x"})
    assert "a=2, b='x'" in " ".join(chosen.notices)


def test_a_rejection_within_a_step_is_no_failure(load_determined: Load) -> None:
    source = (
        "class T(Base):\n    def train_batch(self, batch, epoch_idx, batch_idx):\n        raise det.InvalidHP('late')\n"
    )
    with pytest.raises(RejectedConfig, match="late"):
        Rehearsal.measure(load_determined(source), 10.0)


def test_a_search_space_that_is_rejected_everywhere(load_determined: Load) -> None:
    with pytest.raises(RejectedConfig, match="a is 4"):
        load_determined(PICKY.replace("CONDITION", ">= 0"), SPACE)
