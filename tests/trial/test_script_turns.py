"""Scripts that evaluate once, when their training is over, and those that train again after it."""

from __future__ import annotations

import pytest
from probe_programs import ask
from script_programs import HEAD, SOUND, LoadScript

from mlcheck.core.outcome import Outcome
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import NotReached, Trial

LAST = SOUND.replace("        test(test_loader)\n", "    test(test_loader)\n")
IN_ONE_LOOP = SOUND.replace("range(args.epochs):", "range(args.epochs):  # or folds")
AT_THE_TOP = (
    HEAD
    + """
for epoch in range(args.epochs):
    for data, target in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
model.eval()
with torch.no_grad():
    print([model(data).argmax(1).eq(target).sum() for data, target in test_loader])
"""
)
FOLDS = LAST.replace(
    'if __name__ == "__main__":',
    "def fold():",
).replace('    torch.save(model.state_dict(), "model.pt")', "for number in range(1):\n    fold()")


def train_on(trial: Trial) -> None:
    for index, batch in enumerate([*trial.train_batches()] * 20):
        trial.train_step(batch, index)


def said_at_its_end(trial: Trial) -> NotReached:
    with restored(trial):
        trial.evaluate_step(next(trial.validation_batches()))
        with pytest.raises(NotReached) as why:
            train_on(trial)
    return why.value


@pytest.mark.parametrize("text", [LAST, AT_THE_TOP])
def test_it_evaluates_when_its_training_is_over(load_script: LoadScript, text: str) -> None:
    trial = load_script(text, "--epochs", "2")
    why = said_at_its_end(trial)
    assert why.trains_no_more, str(why)
    assert "it evaluates last" in str(why)
    assert ask("train-not-restored", trial).outcome is Outcome.PASS


def test_a_fault_before_it_is_seen_all_the_same(load_script: LoadScript) -> None:
    trial = load_script(LAST.replace("    model.train()", "    model.eval()"), "--epochs", "2")
    assert ask("train-not-restored", trial).outcome is Outcome.FAIL


@pytest.mark.parametrize("text", [SOUND, IN_ONE_LOOP, FOLDS])
def test_it_would_train_again(load_script: LoadScript, text: str) -> None:
    why = said_at_its_end(load_script(text, "--epochs", "1"))
    assert not why.trains_no_more
    assert "for more epochs or steps" in str(why)


FOLDS_IN_TURNS = (
    HEAD
    + """
models = [Net() for _ in range(3)]
optimizers = [torch.optim.Adam(one.parameters(), lr=3e-3) for one in models]
for epoch in range(args.epochs):
    for model, optimizer in zip(models, optimizers):
        model.train()
        for data, target in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(model(data), target).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for data, target in test_loader:
                model(data)
"""
)


@pytest.mark.parametrize("epochs", ["1", "9"])
def test_folds_that_are_trained_in_turns(load_script: LoadScript, epochs: str) -> None:
    assert ask("train-not-restored", load_script(FOLDS_IN_TURNS, "--epochs", epochs)).outcome is Outcome.PASS


def test_folds_that_stay_in_evaluation_mode(load_script: LoadScript) -> None:
    left = FOLDS_IN_TURNS.replace("        model.train()\n", "")
    verdict = ask("train-not-restored", load_script(left, "--epochs", "9"))
    assert verdict.outcome is Outcome.FAIL, verdict.summary or verdict.reason
    assert "after an evaluation" in verdict.summary
