"""What a script does before its training loop, after it, and between two measurements of it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from probe_programs import ask
from script_programs import HEAD, SOUND, LoadScript, broken

from mlcheck.core.outcome import Outcome
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import NotReached


def test_a_script_that_evaluates_at_its_end_is_trained_after_it_was_evaluated(load_script: LoadScript) -> None:
    """What a measurement compares before and after training has the same weights at its beginning both times."""
    text = SOUND.replace("        test(test_loader)\n", "    test(test_loader)\n").replace("torch.manual_seed(0)\n", "")
    trial = load_script(text, "--epochs", "2")
    assert ask("non-finite-gradient", trial).outcome is Outcome.PASS
    with restored(trial):
        before = [p.detach().clone() for p in trial.models["model"].parameters()]
        with restored(trial):
            trial.evaluate_step(next(trial.validation_batches()))
        after = list(trial.models["model"].parameters())
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        trial.train_step(next(trial.train_batches()), 0)
        assert not torch.equal(after[0], before[0])


PREPARED = (
    HEAD
    + """
def fit(optimizer):
    for _ in range(30):
        optimizer.zero_grad()
        rows = torch.randperm(64)[:16]
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()

fit(torch.optim.SGD(model.parameters(), lr=0.1))
for p in model.body.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
"""
)


def test_what_is_fitted_before_the_loop_over_a_loader_prepares_it(load_script: LoadScript) -> None:
    trial = load_script(PREPARED + SOUND.removeprefix(HEAD))
    assert "trains at train.py:" in trial.notices[0]
    assert "without a DataLoader" not in trial.notices[0]
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS
    assert ask("cannot-overfit-one-batch", trial).outcome is Outcome.PASS


@pytest.mark.parametrize("rule", ["missing-zero-grad", "missing-eval-mode"])
def test_a_fault_is_found_behind_what_was_fitted_before(load_script: LoadScript, rule: str) -> None:
    line = {"missing-zero-grad": "optimizer.zero_grad()", "missing-eval-mode": "model.eval()"}[rule]
    verdict = ask(rule, load_script(PREPARED + SOUND.removeprefix(HEAD).replace(line, "pass")))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary


READ_SAMPLE_BY_SAMPLE = """
samples = DataLoader(TensorDataset(x[:64].repeat(20, 1), y[:64].repeat(20)))
mean = torch.cat([row for row, _ in samples]).mean(0)
x -= mean
"""


def test_a_script_may_read_its_data_in_a_thousand_batches_before_it_trains(load_script: LoadScript) -> None:
    trial = load_script(HEAD + READ_SAMPLE_BY_SAMPLE + SOUND.removeprefix(HEAD))
    assert "trains at train.py:" in trial.notices[0]
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS
    assert ask("missing-eval-mode", trial).outcome is Outcome.PASS


@pytest.mark.parametrize("rule", ["missing-zero-grad", "missing-eval-mode"])
def test_a_fault_is_found_behind_a_thousand_batches(load_script: LoadScript, rule: str) -> None:
    trial = load_script(broken(rule).replace(HEAD, HEAD + READ_SAMPLE_BY_SAMPLE))
    assert ask(rule, trial).outcome is Outcome.FAIL


NAMED_IN_THE_LOOP = """
x_all, y_all = next(iter(DataLoader(TensorDataset(x, y), len(x))))
for step in range(12):
    optimizer.zero_grad()
    logits = model(x_all)
    if step == 2:
        early = logits.argmax(1)
    F.cross_entropy(logits, y_all).backward()
    optimizer.step()
print(early == model(x_all).argmax(1))
"""


def test_what_a_loop_named_is_there_when_the_script_goes_on_after_it(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that takes long to start goes on where a measurement left it; its variables are those of its code."""
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    trial = load_script(HEAD + NAMED_IN_THE_LOOP)

    def train(steps: int) -> None:
        with restored(trial):
            batch = next(trial.train_batches())
            for index in range(steps):
                trial.train_step(batch, index)

    train(11)
    with pytest.raises(NotReached, match=r"ended after \d+ training steps"):
        train(1000)


LED = """
ahead = torch.randn(1, 8)
print(model.eval()(ahead).sum().item())
model.train()
for epoch in range(300):
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.eval()(ahead).sum().item())
"""


@pytest.mark.parametrize(("clears", "outcome"), [("optimizer.zero_grad()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_prediction_printed_before_training_is_no_step(
    load_script: LoadScript, clears: str, outcome: Outcome
) -> None:
    trial = load_script(HEAD + LED.replace("optimizer.zero_grad()", clears))
    verdict = ask("batch-not-reviewed", trial)
    assert "(96, 8)" in (verdict.summary + verdict.reason)
    assert ask("missing-zero-grad", trial).outcome is outcome


def test_a_prediction_printed_after_training_is_no_step(load_script: LoadScript) -> None:
    trial = load_script(HEAD + LED.replace("range(300)", "range(6)"))
    steps = list(trial.train_batches())
    with restored(trial):
        for index in range(6):
            trial.train_step(steps[index], index)
        with pytest.raises(NotReached, match="ended after 6 training steps"):
            trial.train_step(steps[6], 6)


LEARNT_START = """
import torch
from torch import nn

class Machine(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(4, 8), nn.Linear(8, 4)
        self.start = nn.Parameter(torch.zeros(1, 8))

    def begin(self, samples):
        self.state = self.start.tanh().repeat(samples, 1), samples

    def forward(self, x):
        self.state = self.cell(x, self.state[0]), len(x)
        return self.out(self.state[0])

machine = Machine()
optimizer = torch.optim.Adam(machine.parameters(), lr=1e-2)
for step in range(400):
    x = torch.randn(6, 16, 4)
    optimizer.zero_grad()
    machine.begin(16)
    loss = torch.stack([(machine(part) - part).square().mean() for part in x]).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_state_on_a_graph_is_left_to_the_step_that_made_it(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    trial = load_script(LEARNT_START)
    for _ in range(2):
        with restored(trial):
            for batch in list(trial.train_batches())[:2]:
                with restored(trial) as state:
                    trial.train_step(batch, 0)
                assert not state.unrestored


GUARDED = """
for epoch in range(60):
    for batch, labels in train_loader:
        assert batch.abs().max() < 50, "not measured in this unit"
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
"""


def test_after_a_batch_that_the_script_refuses_it_begins_anew(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    trial = load_script(HEAD + GUARDED)
    with restored(trial):
        batch, labels = next(trial.train_batches())
        for factor, refused in ((1.0, False), (100.0, True), (1.0, False)):
            with restored(trial), pytest.raises(AssertionError) if refused else nullcontext():
                for optimizer in trial.optimizers.values():
                    optimizer.param_groups[0]["lr"] = 0.0
                trial.train_step([batch * factor, labels], 0)
