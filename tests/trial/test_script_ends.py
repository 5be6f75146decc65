"""Scripts that end too early, leave in the middle, raise or do not train."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from probe_programs import ask, examined
from script_programs import HEAD, LOOPS, SOUND, LoadScript

from mlcheck.core.outcome import Outcome
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.script.driver import Driver
from mlcheck.trial.trial import EntryError, NotReached


def test_a_script_that_ends_says_what_to_do(load_script: LoadScript) -> None:
    trial = load_script(SOUND, "--epochs", "1")
    with restored(trial):
        trial.evaluate_step(next(trial.validation_batches()))
        with pytest.raises(NotReached, match=r"ended after \d+ training steps?: for more epochs or steps give it"):
            trial.train_step(next(trial.train_batches()), 0)


COUNTED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(32, 2), torch.randn(32, 1)), batch_size=8)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = 0
while steps < 12:
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        steps += 1
        if steps == 12:
            break
"""


def test_steps_that_others_used_up_are_told_from_steps_that_there_are_not(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)  # as of a script that takes long to start
    trial = load_script(COUNTED)

    def train(steps: int) -> None:
        with restored(trial):
            batch = next(trial.train_batches())
            for index in range(steps):
                trial.train_step(batch, index)

    train(3)
    with pytest.raises(NotReached) as used:
        train(1000)
    with pytest.raises(NotReached) as fresh:
        train(1000)
    assert (used.value.used_up, fresh.value.used_up) == (True, False)
    train(3)


def test_one_epoch_is_enough_to_evaluate_before_training(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that takes long is not repeated for every measurement; steps of an earlier one lose nothing now."""
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    trial = load_script(SOUND, "--epochs", "1")
    with restored(trial):
        trial.train_step(next(trial.train_batches()), 0)
    with restored(trial):
        with restored(trial):
            trial.evaluate_step(next(trial.validation_batches()))
        trial.train_step(next(trial.train_batches()), 0)
        trial.evaluate_step(next(trial.validation_batches()))


def test_a_measurement_that_was_given_up_in_a_validation_leaves_nothing_to_the_next(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modes are put back, but the script stands in its validation: the next measurement begins anew."""
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    trial = load_script(HEAD + LOOPS["steps without epochs"].replace("step % 10 == 9", "step == 0"))
    assert isinstance(trial.progress, Driver)
    monkeypatch.setattr(trial.progress, "_seconds", 0.0)
    with restored(trial):
        batch = next(trial.train_batches())
        with pytest.raises(NotReached, match="did not come to"):
            trial.train_step(batch, 0)
    monkeypatch.setattr(trial.progress, "_seconds", 20.0)
    assert ask("missing-eval-mode", trial).outcome is Outcome.PASS


def test_a_script_that_evaluates_long_after_is_begun_anew_to_see_it(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    seldom = LOOPS["steps without epochs"].replace("range(60)", "range(10**7)").replace("step % 10 == 9", "step == 0")
    trial = load_script(HEAD + "\ndef main():" + seldom.replace("\n", "\n    ") + "\nmain()\n")
    assert isinstance(trial.progress, Driver)
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    monkeypatch.setattr(trial.progress, "_seconds", 0.3)
    with restored(trial):
        trial.train_step(next(trial.train_batches()), 0)
    with restored(trial), pytest.raises(NotReached, match="did not come to an evaluation in 0 s"):
        next(trial.validation_batches())
    with restored(trial):
        trial.train_step(next(trial.train_batches()), 0)
        with pytest.raises(NotReached, match="trains over 0 s before it evaluates again"):
            next(trial.validation_batches())
    assert ask("missing-eval-mode", trial).outcome is Outcome.PASS


EVALUATED_AT_STEP_0 = """
for step in range(10**7):
    if step % 10**6 == 0:
        model.eval()
        with torch.no_grad():
            print(sum(F.cross_entropy(model(x[i::16]), y[i::16]).item() for i in range(16)))
        model.train()
    loss = F.cross_entropy(model(x[step % 4::4]), y[step % 4::4])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("says", "outcome"), [("model.eval()", Outcome.PASS), ("pass", Outcome.FAIL)])
def test_a_script_that_evaluates_at_step_0_and_seldom_after_is_seen_there(
    load_script: LoadScript, monkeypatch: pytest.MonkeyPatch, says: str, outcome: Outcome
) -> None:
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    trial = load_script(HEAD + EVALUATED_AT_STEP_0.replace("model.eval()", says))
    assert isinstance(trial.progress, Driver)
    monkeypatch.setattr(trial.progress, "_seconds", 0.5)
    assert ask("missing-eval-mode", trial).outcome is outcome
    with restored(trial):
        trial.evaluate_step(next(trial.validation_batches()))
        trial.train_step(next(trial.train_batches()), 0)
        with pytest.raises(NotReached):
            trial.evaluate_step(next(trial.validation_batches()))
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS


def test_it_is_seen_there_to_go_on_in_evaluation_mode(load_script: LoadScript, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = load_script(HEAD + EVALUATED_AT_STEP_0.replace("model.train()", "pass"))
    assert isinstance(trial.progress, Driver)
    monkeypatch.setattr(trial.progress, "_seconds", 0.5)
    assert ask("train-not-restored", trial).outcome is Outcome.FAIL


def test_what_fails_for_want_of_batches_is_not_the_scripts_fault(load_script: LoadScript) -> None:
    """A loop that mlcheck cut short on the way to the next training batch leaves too little for what comes after it."""
    counting = SOUND
    for old, new in (
        ("y[64:]), 16)", "y[64:]), 1)"),
        ("    right = 0", "    right = seen = 0"),
        ("            right +=", "            seen += 1\n            right +="),
        ("    print(right", "    assert seen == len(loader), 'too few'\n    print(right"),
    ):
        assert old in counting
        counting = counting.replace(old, new)
    trial = load_script(counting, "--epochs", "3")
    with restored(trial):
        trial.evaluate_step(next(trial.validation_batches()))
        with pytest.raises(NotReached, match="raised AssertionError: too few, where mlcheck had cut its loops short"):
            trial.train_step(next(trial.train_batches()), 0)


STOPS_EARLY = """
history, total, step, better = [], 0.0, 0, True
while better:
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model.head(F.relu(model.body(data))), target)
        loss.backward()
        optimizer.step()
        total, step = total + loss.item(), step + 1
        if step % 4 == 0:
            better = not history or history[-1] - total > 1e-4
            history.append(total)
            total = 0.0
            if not better:
                break
print(history[20])
"""


def test_a_script_that_stops_early_with_weights_held_still(load_script: LoadScript) -> None:
    results = examined(load_script(HEAD + STOPS_EARLY), "entry-does-not-run", "later-step-breaks", "dead-units")
    assert results["entry-does-not-run"].outcome is Outcome.PASS
    assert results["later-step-breaks"].outcome is Outcome.PASS
    assert results["dead-units"].outcome is Outcome.INCONCLUSIVE
    assert "IndexError: list index out of range" in results["dead-units"].reason


def test_what_a_script_raises_comes_out(load_script: LoadScript) -> None:
    with pytest.raises(ZeroDivisionError):
        load_script("1 / 0")
    with pytest.raises(ModuleNotFoundError):
        load_script("import nothing_of_this_name")


OWN_PARSER = """
import argparse, sys
class Own(argparse.ArgumentParser):
    def error(self, message):
        sys.exit(2)
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("print('hello')", "ended without a training step"),
        ("import sys; sys.exit('give --data')", "sys.exit.'give --data'."),
        (
            "import sys\ntry:\n    raise ValueError('no --data')\nexcept ValueError:\n    sys.exit(2)\n",
            r"ended with sys.exit\(2\) after ValueError: no --data without a training step",
        ),
        (
            "import argparse; p = argparse.ArgumentParser(); p.add_argument('--rate', required=True); p.parse_args()",
            "refuses its arguments: the following arguments are required: --rate; give others after `--`",
        ),
        (
            OWN_PARSER + "p = Own(); p.add_argument('--rate', required=True); p.parse_args()",
            "refuses its arguments: the following arguments are required: --rate; give others after `--`",
        ),
        ("import torch, sys; print(sys.argv); torch.nn.Linear(2, 2)(torch.ones(2))", "give it other arguments"),
        (
            "import torch; torch.nn.Linear(2, 2)(torch.ones(2)); raise SystemExit",
            r"change \w+\.py or its configuration",
        ),
    ],
)
def test_a_script_that_does_not_train(load_script: LoadScript, text: str, told: str) -> None:
    with pytest.raises(EntryError, match=told):
        load_script(text)


@pytest.mark.parametrize("code", ["0", "3", "'no more data'"])
def test_a_script_that_leaves_in_the_middle(load_script: LoadScript, code: str) -> None:
    """`sys.exit` in the first epoch's evaluation: what was seen until then is examined."""
    text = SOUND.replace("    model.eval()\n", f"    model.eval()\n    import sys; sys.exit({code})\n")
    verdict = ask("missing-zero-grad", load_script(text))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary


RAISES = f"""
import random
for step in range(100):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    if random.random() == {random.Random(6).random()}:
        raise ValueError("a piece that is too short")
"""


def test_what_a_script_raised_after_it_had_trained_is_told(load_script: LoadScript) -> None:
    trial = load_script(HEAD + RAISES)
    told = pytest.raises(NotReached, match="raised ValueError: a piece that is too short after it had trained")
    with restored(trial):
        trial.train_step(next(iter(trial.train_batches())), 0)
        with told, restored(trial), suppress(ValueError):
            seed_all(6)
            trial.train_step(next(iter(trial.train_batches())), 1)


def test_what_a_script_raised_in_steps_that_were_undone_stops_nothing(load_script: LoadScript) -> None:
    trial = load_script(HEAD + RAISES)
    with restored(trial):
        with restored(trial), suppress(ValueError):
            trial.train_step(next(iter(trial.train_batches())), 0)
            seed_all(6)
            trial.train_step(next(iter(trial.train_batches())), 1)
        trial.train_step(next(iter(trial.train_batches())), 0)


LAST = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.walk, self.head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 5)
    def forward(self, x):
        return self.head(self.walk(x.reshape(-1, 4, 2), torch.zeros(1, len(x), 8))[0][:, -1])

model = Reader()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
with torch.no_grad():
    for inputs, labels in test_loader:
        print((model(inputs).argmax(1) == labels).float().mean().item())
"""


@pytest.mark.parametrize(("begin", "outcome"), [("zeros", Outcome.PASS), ("randn", Outcome.WARN)])
def test_what_recurrent_layers_begin_with_is_seen_where_a_script_evaluates_last(
    load_script: LoadScript, begin: str, outcome: Outcome
) -> None:
    verdict = ask("initial-state-random", load_script(HEAD + LAST.replace("torch.zeros", f"torch.{begin}")))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary
