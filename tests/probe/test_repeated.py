"""Two runs with one seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of, trial_on
from sound_programs import SOUND
from torch import Tensor
from torch.utils.data import Dataset

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks.run_not_repeatable import check
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.training.other_process import OtherProcess, _parting, _sketch
from mlcheck.probe.measure.training.repeated import Repeated
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.trial import Source, Trial

RULE = "run-not-repeatable"
FRESH = itertools.count(1)


def again(construct: Callable[[], Trial]) -> Trial:
    def seeded(*_: int) -> Trial:
        torch.manual_seed(0)
        return construct()

    trial = seeded()
    trial.again = seeded
    return trial


def plain() -> Trial:
    return trial_of(mlp(), classes(8), cross_entropy)


def unseeded_weights() -> Trial:
    trial = plain()
    with torch.no_grad():
        next(iter(trial.models["model"].parameters())).add_(next(FRESH))
    return trial


def unseeded_batches() -> Trial:
    trial = plain()
    batches = [(x + next(FRESH), y) for x, y in trial.train_batches()]
    trial.train_batches = lambda: iter(batches)
    return trial


def unseeded_step() -> Trial:
    trial = plain()
    inner = trial.train_step

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        inputs, labels = batch
        return dict(inner((inputs * (1 + 0.01 * next(FRESH)), labels), index))

    trial.train_step = step
    return trial


class Negatives:
    """Numbers drawn once and given in turn; `own` draws them anew at each call, from a generator of nobody's."""

    def __init__(self, own: bool) -> None:
        self.own, self.place = own, 0
        self.drawn = torch.randn(500, generator=torch.Generator().manual_seed(1))

    def next(self) -> Tensor:
        self.place += 1
        return torch.full((), float(next(FRESH))) if self.own else self.drawn[self.place]


class Lines(Dataset[Any]):
    """The lines of a file, one after the other, whatever index is asked for."""

    def __init__(self, path: Path, own: bool = False) -> None:
        path.write_text("".join(f"{row} {row * row % 7}\n" for row in range(400)), encoding="utf-8")
        self.file, self.negatives = path.open(encoding="utf-8"), Negatives(own)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        numbers = torch.tensor([float(part) for part in self.file.readline().split()])
        return torch.cat([numbers, self.negatives.next().expand(6)]) / 100, index % 5


def test_data_that_is_read_on_and_on_begins_where_it_began(tmp_path: Path) -> None:
    for own, outcome in ((False, Outcome.PASS), (True, Outcome.WARN)):
        lines = Lines(tmp_path / "lines.txt", own)
        trial = trial_on(lines, shuffle=False)
        trial.objects = (lines,)
        with lines.file:
            assert ask(RULE, trial).outcome is outcome


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_programs_repeat_themselves(name: str) -> None:
    assert ask(RULE, SOUND[name]()).outcome is Outcome.PASS


def test_two_starts_are_compared_where_the_program_can_be_constructed_again() -> None:
    verdict = ask(RULE, again(plain))
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary.startswith("two starts with one seed agree")


@pytest.mark.parametrize(
    ("construct", "parting"),
    [
        (unseeded_weights, "diverge at the initial weights (`model.0.weight`)"),
        (unseeded_batches, "diverge at batch 1 (`batch[0]`)"),
        (unseeded_step, "diverge at the metrics of step 1 (`loss`)"),
    ],
)
def test_what_differs_first_is_named(construct: Callable[[], Trial], parting: str) -> None:
    verdict = ask(RULE, again(construct))
    assert verdict.outcome is Outcome.WARN
    assert parting in verdict.summary


def test_a_step_that_draws_unseeded_numbers_is_seen_without_a_second_start() -> None:
    assert ask(RULE, unseeded_step()).outcome is Outcome.WARN


PROGRAM = """
import torch
from torch import nn

WORDS = set(["red", "green", "blue", "grey", "black", "white", "pink", "brown"])


def build():
    torch.manual_seed(0)
    ids = torch.tensor([[list(WORDS).index(word)] for word in ("red", "blue", "pink", "grey")] * 8)
    data = torch.utils.data.TensorDataset(ids, torch.arange(32) % 2)
    model = nn.Sequential(nn.Embedding(8, 4), nn.Flatten(), nn.Linear(4, 2))
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
            "criterion": nn.CrossEntropyLoss(), "train_loader": torch.utils.data.DataLoader(data, batch_size=8)}
"""


@pytest.mark.slow
def test_a_vocabulary_in_the_order_of_a_set(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    trial = load_trial(f"{tmp_path / 'program.py'}:build", EntryOptions())
    found = OtherProcess.measure(trial, 300.0)
    assert (found.parting, found.keyed) == ("`batch[0]` of batch 1", True)


SCRIPT = (
    PROGRAM
    + """

parts = build()
for epoch in range(3):
    for words, labels in parts["train_loader"]:
        parts["optimizer"].zero_grad()
        parts["criterion"](parts["model"](words), labels).backward()
        parts["optimizer"].step()
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "parting"), [("set(", "`batch[0]` of batch 1"), ("sorted(set(", "")])
def test_a_script_is_begun_in_another_process_too(tmp_path: Path, words: str, parting: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace('"brown"])', '"brown"])' + ")" * words.count("sorted")).replace("set(", words, 1))
    trial = plain()
    trial.source, trial.entry = Source(str(script), EntryOptions(seed=0), str(tmp_path)), (str(script), 1)
    assert OtherProcess.measure(trial, 300.0).parting == parting


def test_a_program_without_hashes_starts_no_other_process() -> None:
    trial = plain()
    trial.source = Source("program:build", EntryOptions(), ".")
    trial.entry = ("", 0)
    with pytest.raises(NotMeasured, match="neither hashes nor makes sets"):
        OtherProcess.measure(trial, 60.0)


def judged(other: OtherProcess) -> Verdict:
    return check(Repeated("", "", 3, True, "cpu", Location()), other)


def test_what_differs_between_processes_is_told_with_its_reason() -> None:
    keyed = judged(OtherProcess("`0` of batch 1", True, Location()))
    assert keyed.outcome is Outcome.WARN
    assert "first in `0` of batch 1: hash() of text, or the order of a set" in keyed.summary
    assert "the time, the process" in judged(OtherProcess("`0` of batch 1", False, Location())).summary
    assert judged(OtherProcess("", False, Location())).outcome is Outcome.PASS


def test_sketches_tell_orders_apart_and_not_rounding() -> None:
    values = torch.randn(50)
    assert not _parting([("x", _sketch(values))], [("x", _sketch(values * (1 + 1e-6)))])
    assert _parting([("x", _sketch(values))], [("x", _sketch(values.flip(0)))]) == "x"
    assert _parting([("x", _sketch(torch.arange(9)))], [("x", _sketch(torch.arange(10)))]) == "x"
