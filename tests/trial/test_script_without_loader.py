"""Scripts that draw their own batches, or take all their data at once: driven from one forward pass to the next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from probe_programs import ask, examined
from script_programs import DRAWN, HEAD, IN_ORDER, SOUND, broken

from mlcheck.core.outcome import Outcome
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import NotReached, Trial

LoadScript = Callable[..., Trial]


def test_a_script_without_loader_is_driven_from_one_forward_pass_to_the_next(load_script: LoadScript) -> None:
    trial = load_script(DRAWN)
    assert "without a DataLoader" in trial.notices[0]
    for rule in ("missing-zero-grad", "missing-eval-mode", "train-not-restored", "cannot-overfit-one-batch"):
        verdict = ask(rule, trial)
        assert verdict.outcome is Outcome.PASS, (rule, verdict.reason or verdict.summary)


@pytest.mark.parametrize("rule", ["missing-zero-grad", "missing-eval-mode", "train-not-restored"])
def test_a_fault_is_found_without_a_loader(load_script: LoadScript, rule: str) -> None:
    line = {"missing-zero-grad": "optimizer.zero_grad()", "missing-eval-mode": "model.eval()"}.get(
        rule, "model.train()"
    )
    verdict = ask(rule, load_script(DRAWN.replace(line, "pass")))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary


LOOKS = """
for epoch in range(200):
    model.train()
    optimizer.zero_grad()
    output = model(x)
    F.cross_entropy(output[:40], y[:40]).backward()
    optimizer.step()
    model.eval()
    output = model(x)
    print(F.cross_entropy(output[40:], y[40:]).item())
"""


@pytest.mark.parametrize(("trains", "outcome"), [("model.train()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_look_in_evaluation_mode_that_records_gradients_is_no_training(
    load_script: LoadScript, trains: str, outcome: Outcome
) -> None:
    verdict = ask("train-not-restored", load_script(HEAD + LOOKS.replace("model.train()", trains)))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


def test_nothing_is_said_about_batches_that_are_drawn_within_a_step(load_script: LoadScript) -> None:
    rules = ("non-finite-batch", "training-data-not-shuffled", "loader-slower-than-step", "label-out-of-range")
    found = {rule: result.outcome for rule, result in examined(load_script(DRAWN), *rules).items()}
    assert found == {**dict.fromkeys(rules, Outcome.SKIP), "label-out-of-range": Outcome.PASS}


LISTED = """
loader = DataLoader(TensorDataset(x, y), 20, shuffle=True)
for epoch in range(100):
    batches = list(enumerate(loader))
    model.train()
    for step, (inputs, labels) in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(F.cross_entropy(model(x), y).item())
"""


@pytest.mark.parametrize(("clears", "outcome"), [("optimizer.zero_grad()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_script_that_lists_its_batches_first_is_followed_through_the_list(
    load_script: LoadScript, clears: str, outcome: Outcome
) -> None:
    trial = load_script(HEAD + LISTED.replace("optimizer.zero_grad()", clears))
    assert "without a DataLoader" in trial.notices[0]
    verdict = ask("missing-zero-grad", trial)
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


AFTER_THE_PASS = """
head = nn.Linear(5, 5)
optimizer.add_param_group({"params": head.parameters()})
loader = DataLoader(TensorDataset(x, y), 20)
for epoch in range(100):
    optimizer.zero_grad()
    answers, labels = zip(*[(model(inputs), labels) for inputs, labels in loader])
    F.cross_entropy(head(torch.cat(answers)), torch.cat(labels)).backward()
    optimizer.step()
"""


def test_a_loop_whose_batches_the_model_has_seen_trains_though_its_step_comes_after_it(load_script: LoadScript) -> None:
    assert not any("without a DataLoader" in notice for notice in load_script(HEAD + AFTER_THE_PASS).notices)


ONE_BATCH = """
x_all, y_all = next(iter(DataLoader(TensorDataset(x, y), len(x))))
for layer in range(3):
    for step in range(50):
        optimizer.zero_grad()
        F.cross_entropy(model(x_all), y_all).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("clears", "outcome"), [("optimizer.zero_grad()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_script_that_takes_all_its_data_at_once_is_followed_through_its_own_loop(
    load_script: LoadScript, clears: str, outcome: Outcome
) -> None:
    trial = load_script(HEAD + ONE_BATCH.replace("optimizer.zero_grad()", clears))
    assert "without a DataLoader" in trial.notices[0]
    assert ask("missing-zero-grad", trial).outcome is outcome


def test_a_script_that_cannot_be_followed_step_by_step_decides_nothing(load_script: LoadScript) -> None:
    """It calls no module, as the forward-forward example does: nothing tells where a step begins."""
    trial = load_script(HEAD + ONE_BATCH.replace("model(x_all)", "x_all @ model.body.weight[:5].T"))
    result = examined(trial, "missing-zero-grad")["missing-zero-grad"]
    assert result.outcome is Outcome.INCONCLUSIVE
    assert "ended after" in result.reason


def test_a_batch_that_cannot_be_had_twice_is_not_learnt_by_heart(load_script: LoadScript) -> None:
    verdict = ask("cannot-overfit-one-batch", load_script(IN_ORDER))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "none can be had twice" in verdict.reason


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


APART = """
class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 5)]) for _ in range(2)]
        self.weights = nn.ParameterList([p for block in self.blocks for p in block.parameters()])
    def forward(self, x):
        votes = 0
        for rest, vote in self.blocks:
            votes = votes + vote(x)
            x = x - F.relu(rest(x))
        return x, votes

model = Blocks()
optimizer = torch.optim.Adam(model.parameters())
while True:
    index = torch.randint(64, (16,))
    optimizer.zero_grad()
    _, votes = model(x[index])
    F.cross_entropy(votes, y[index]).backward()
    optimizer.step()
"""


def test_weights_that_a_list_registers_are_one_with_those_of_their_blocks(load_script: LoadScript) -> None:
    verdict = ask("tied-weights-apart", load_script(HEAD + APART))
    assert verdict.outcome is Outcome.PASS, verdict.summary


def test_that_other_batches_cost_otherwise_does_not_make_a_weight_matter(load_script: LoadScript) -> None:
    verdict = ask("parameter-without-gradient", load_script(HEAD + APART))
    assert verdict.outcome is Outcome.WARN, verdict.summary
    assert "never got a gradient" in verdict.summary
    assert "change the loss" not in verdict.summary


AT_ONCE = """
answers = (x[:, :1] + 3 * torch.randn(96, 1) > 0).float()
given = x[:, :1]
model = nn.Sequential(nn.Linear(1, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(3000):
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(model(given), answers).backward()
    optimizer.step()
"""


def test_all_data_at_once_is_no_batch_of_one_and_may_be_more_than_a_small_model_holds(load_script: LoadScript) -> None:
    verdict = ask("cannot-overfit-one-batch", load_script(HEAD + AT_ONCE.replace("WIDTH", "4")))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "13 trained numbers cannot hold 96 targets" in verdict.reason


def test_all_data_at_once_that_a_model_could_hold_and_does_not(load_script: LoadScript) -> None:
    blind = AT_ONCE.replace("WIDTH", "64").replace("model(given)", "model(0 * given)")
    verdict = ask("cannot-overfit-one-batch", load_script(HEAD + blind))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary
    assert "96 samples cannot be learnt by heart" in verdict.summary


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


FOLLOWED_BY_A_TARGET = """
target = Net()
target.load_state_dict(model.state_dict())
memory = []
for step in range(400):
    state = x[step % 96 : step % 96 + 1]
    model.eval()
    with torch.no_grad():
        chosen = model(state).argmax(1)
    model.train()
    memory.append((state, chosen))
    if len(memory) >= 8:
        states, actions = (torch.cat(part) for part in zip(*memory[-8:]))
        value = model(states).gather(1, actions[:, None])
        with torch.no_grad():
            wanted = 1.0 + 0.9 * target(states).amax(1, keepdim=True)
        loss = F.mse_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("clears", "outcome"), [("optimizer.zero_grad()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_network_that_is_asked_within_a_step_is_not_evaluated_there(
    load_script: LoadScript, clears: str, outcome: Outcome
) -> None:
    trial = load_script(HEAD + FOLLOWED_BY_A_TARGET.replace("optimizer.zero_grad()", clears))
    assert trial.evaluate_step is not None
    assert trial.validation_batches is not None
    with restored(trial):
        for turn in list(trial.validation_batches())[:4]:
            trial.evaluate_step(turn)
            trial.train_step(turn, 0)
    assert ask("missing-zero-grad", trial).outcome is outcome
