"""What a trial's own reducers make of a validation reaches the probes as what its evaluation returns does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from forms import DETERMINED, program
from probe_programs import ask, says

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.short_run import ShortRun, evaluated
from mlcheck.probe.measure.validation.logged import metrics_alone
from mlcheck.trial.find import load_trial
from mlcheck.trial.trial import EntryOptions, Trial

WRAPPED = "self.optimizer = context.wrap_optimizer(torch.optim.Adam(trained(self.net), lr=RATE))"
EVALUATED = 'return {"loss": F.cross_entropy(self.net(batch[0]), batch[1])}'
MEAN = """
from determined.pytorch import MetricReducer

class Mean(MetricReducer):
    def __init__(self):
        self.values, self.seen, self.best = [], 0, 1e9
    def reset(self):
        RESET
    def update(self, value):
        self.values.append(value)
    def per_slot_reduce(self):
        return self.values
    def cross_slot_reduce(self, parts):
        values = [value for part in parts for value in part]
        REDUCED
"""
FORGETS, ITS_MEAN = "self.values = []", "return sum(values) / len(values)"
RIGHT = "int((self.net(batch[0]).argmax(1) == batch[1]).sum())"
LOSS = "F.cross_entropy(self.net(batch[0]), batch[1]).item()"
Made = Callable[..., Trial]


@pytest.fixture
def made(write: Callable[[str, str], Path]) -> Made:
    def make(wrapped: str, updated: str, reset: str = FORGETS, reduced: str = ITS_MEAN, config: str = "") -> Trial:
        text = program(DETERMINED)
        assert WRAPPED in text
        assert EVALUATED in text
        text = text.replace("DataLoader(held_out, 16)", "DataLoader(held_out, 8)")
        text = text.replace(WRAPPED, f"{WRAPPED}\n        self.reducer = context.wrap_reducer({wrapped})")
        text = text.replace(EVALUATED, f"self.reducer.update({updated})\n        {EVALUATED}")
        write("train.py", MEAN.replace("RESET", reset).replace("REDUCED", reduced) + text)
        options = EntryOptions(config=write("experiment.yaml", config)) if config else EntryOptions()
        return load_trial("train.py:NetTrial", options)

    return make


@pytest.mark.parametrize("reset", ["pass", "self.values = self.values[:]", "self.seen = 0"])
def test_a_reducer_that_does_not_forget(made: Made, reset: str) -> None:
    verdict = ask("random-evaluation", made("Mean(), name='mean', for_training=False", LOSS, reset=reset))
    says(verdict, Outcome.WARN, "mean counts the samples of the validation before")


@pytest.mark.parametrize(
    ("wrapped", "updated", "reduced"),
    [
        ("Mean(), name='mean'", LOSS, ITS_MEAN),
        ("lambda parts: sum(parts) / 1000, name='accuracy'", RIGHT, ITS_MEAN),
        ("Mean()", LOSS, "return {'mean': values[0], 'all': None, 'most': max(values)}"),
        (
            "Mean()",
            LOSS,
            "self.best = min(self.best, sum(values) / len(values)); return {'mean': values[-1], 'best': self.best}",
        ),
        ("Mean(), name='nothing'", LOSS, "return None"),
        ("Mean(), name='mean', for_validation=False", LOSS, ITS_MEAN),
    ],
    ids=["mean", "function", "several", "best so far", "none", "of training"],
)
def test_reducers_that_forget_their_samples(made: Made, wrapped: str, updated: str, reduced: str) -> None:
    says(ask("random-evaluation", made(wrapped, updated, reduced=reduced)), Outcome.PASS, "agree bit for bit")


def test_what_reducers_make_stands_beside_what_each_batch_returns(made: Made) -> None:
    trial = made("sum, name='accuracy'", "1")
    assert trial.validation_batches is not None
    assert metrics_alone(trial, next(iter(trial.validation_batches())))["accuracy"] == 1
    found = evaluated(trial)
    assert {metrics["accuracy"] for metrics in found} == {len(found)}
    assert all("loss" in metrics for metrics in found)
    run = ShortRun(after=[{"accuracy": 0.1}], reduced=frozenset({"accuracy"}))
    assert run.accuracy is None, "of a few batches, divided by the size of the split perhaps"


MISSING = "if len(values) < 4: raise ValueError('a class is missing'); return sum(values) / len(values)"


def test_a_validation_cut_short_may_hold_too_little(made: Made) -> None:
    trial = made("Mean(), name='mean', for_training=False", LOSS, reduced=MISSING)
    says(ask("random-evaluation", trial), Outcome.PASS)
    says(ask("determined-contract", trial), Outcome.PASS)


def test_a_whole_validation_holds_enough(made: Made) -> None:
    trial = made("Mean(), name='mean', for_training=False", LOSS, reduced=MISSING.replace("< 4", "< 9"))
    with pytest.raises(ValueError, match="a class is missing"):
        ask("determined-contract", trial)


SEARCH = "searcher: {name: single, metric: skill, smaller_is_better: SMALLER, max_length: {batches: 100}}"


@pytest.mark.parametrize(("sign", "outcome"), [("-", Outcome.WARN), ("", Outcome.PASS)])
def test_a_searched_metric_of_a_reducer_that_training_turns_the_wrong_way(
    made: Made, sign: str, outcome: Outcome
) -> None:
    likely = (
        f"(1 + {sign}(2 * torch.softmax(self.net(batch[0]), 1).gather(1, batch[1][:, None]).mean().item() - 1)) / 2"
    )
    trial = made("Mean(), name='skill', for_training=False", likely, config=SEARCH.replace("SMALLER", "false"))
    says(ask("validation-worsens", trial), outcome)
