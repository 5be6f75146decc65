"""Scripts that nobody prepared: driven one batch at a time, begun anew, and leaving nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from probe_programs import ask, says
from script_programs import FAULTS, HEAD, LOOPS, SOUND, LoadScript, broken

from mlcheck.core.outcome import Outcome
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import EntryError


def test_a_sound_script_is_seen_whole(load_script: LoadScript) -> None:
    trial = load_script(SOUND, "--epochs", "2")
    assert list(trial.models) == ["model"]
    assert list(trial.optimizers) == ["optimizer"]
    assert "trains at train.py:29 and evaluates at train.py:39" in trial.notices[0]
    verdicts = {rule: ask(rule, trial) for rule in (*FAULTS, "zero-grad-before-step", "random-evaluation")}
    assert {rule: v.outcome for rule, v in verdicts.items()} == dict.fromkeys(verdicts, Outcome.PASS)


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_is_found_where_it_is(load_script: LoadScript, rule: str) -> None:
    verdict = ask(rule, load_script(broken(rule), "--epochs", "2"))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary


@pytest.mark.parametrize("form", LOOPS)
def test_loops_in_other_forms_are_sound_too(load_script: LoadScript, form: str) -> None:
    trial = load_script(HEAD + LOOPS[form], "--epochs", "2")
    for rule in ("missing-zero-grad", "missing-eval-mode", "train-not-restored", "parameter-never-changes"):
        verdict = ask(rule, trial)
        assert verdict.outcome is Outcome.PASS, (rule, verdict.reason or verdict.summary)
        assert verdict.looked_at


@pytest.mark.parametrize("form", LOOPS)
def test_a_fault_is_found_in_every_form_of_loop(load_script: LoadScript, form: str) -> None:
    text = (HEAD + LOOPS[form]).replace("model.eval()", "pass").replace("optimizer.zero_grad", "str")
    trial = load_script(text.replace("model.train(training)", "model.train()"), "--epochs", "2")
    assert ask("missing-zero-grad", trial).outcome is Outcome.FAIL
    assert ask("missing-eval-mode", trial).outcome is Outcome.FAIL


def test_a_loop_that_begins_its_loader_anew_stays_the_same_loop(load_script: LoadScript) -> None:
    trial = load_script(HEAD + LOOPS["evaluated at first and seldom after"])
    with restored(trial):
        for index, batch in enumerate([*trial.train_batches()] * 5):
            trial.train_step(batch, index)
        trial.evaluate_step(next(trial.validation_batches()))
        assert len([*trial.train_batches()]) == 4


SECOND_STAGE = """
head = nn.Linear(5, 5)
tuned = torch.optim.Adam(head.parameters(), lr=1e-3)
for epoch in range(args.epochs):
    for data, target in train_loader:
        tuned.zero_grad()
        F.cross_entropy(head(model(data).detach()), target).backward()
        tuned.step()
    test(test_loader)
"""


def test_another_training_in_the_same_script_is_told(load_script: LoadScript) -> None:
    stages = SOUND.split("    for epoch in range(args.epochs):")[0] + "    train(train_loader)\n" + SECOND_STAGE
    place = stages.splitlines().index("    for data, target in loader:") + 1  # the shorter of the two
    told = load_script(stages).notices
    assert any(f"train.py:{place} as well, and no probe looked there" in notice for notice in told), told
    folds = SOUND.replace("train(train_loader)", "train(train_loader)\n        train(test_loader)")
    assert not any("as well" in notice for notice in load_script(folds).notices)


TEACHER = """
teacher = Net()
taught = torch.optim.Adam(teacher.parameters())
for epoch in range(2):
    for data, target in train_loader:
        taught.zero_grad()
        F.cross_entropy(teacher(data), target).backward()
        taught.step()
teacher.eval()
with torch.no_grad():
    print([teacher(data).argmax(1).eq(target).float().mean() for data, target in test_loader])
"""


def test_a_student_that_trains_longer_than_its_teacher_is_followed(load_script: LoadScript) -> None:
    text = HEAD + TEACHER + SOUND[len(HEAD) :]
    trial = load_script(text, "--epochs", "6")
    place = text.splitlines().index("    for data, target in loader:") + 1
    assert f"train.py trains at train.py:{place}" in trial.notices[0], trial.notices
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS
    assert trial.evaluate_step is not None


def test_training_data_that_is_evaluated_too_is_no_validation_data(load_script: LoadScript) -> None:
    trial = load_script(HEAD + LOOPS["both parts evaluated"])
    assert len(trial.loaders["validation"].dataset) == 32
    assert ask("splits-overlap", trial).outcome is Outcome.PASS
    alone = HEAD + LOOPS["both parts evaluated"].replace(", score(test_set)", "")
    assert ask("splits-overlap", load_script(alone)).outcome is Outcome.FAIL


def test_it_is_told_apart_too_where_gradients_are_off_in_the_body_of_the_loop_alone(load_script: LoadScript) -> None:
    text = (HEAD + LOOPS["both parts evaluated"]).replace(
        """    with torch.no_grad():
        return sum(model(data).argmax(1).eq(target).sum().item() for data, target in DataLoader(part, 16))
""",
        """    hits = 0
    for data, target in DataLoader(part, 16):
        with torch.no_grad():
            hits += model(data).argmax(1).eq(target).sum().item()
    return hits
""",
    )
    assert "hits" in text
    trial = load_script(text)
    assert len(trial.loaders["validation"].dataset) == 32
    assert ask("splits-overlap", trial).outcome is Outcome.PASS
    assert ask("splits-overlap", load_script(text.replace(", score(test_set)", ""))).outcome is Outcome.FAIL


DRAWN_ANEW = """
for epoch in range(3):
    x = torch.randn(96, 8)
    for data, target in DataLoader(TensorDataset(x, x[:, :5].argmax(1)), 16):
        optimizer.zero_grad()
        F.cross_entropy(model(data), target).backward()
        optimizer.step()
"""


def test_data_that_every_epoch_draws_anew_needs_no_other_order(load_script: LoadScript) -> None:
    says(ask("training-data-not-shuffled", load_script(HEAD + DRAWN_ANEW)), Outcome.PASS, "other samples")


@pytest.mark.parametrize(
    "changed",
    [("range(3):\n    x = torch.randn(96, 8)", "range(3):"), ("torch.randn(96, 8)\n", "x[:96]\n")],
)
def test_a_loader_that_every_epoch_makes_anew_over_the_same_data(
    load_script: LoadScript, changed: tuple[str, str]
) -> None:
    trial = load_script(HEAD + DRAWN_ANEW.replace(*changed))
    says(ask("training-data-not-shuffled", trial), Outcome.WARN, "in the same order")


def test_memorising_with_the_batch_that_it_is_given(load_script: LoadScript) -> None:
    verdict = ask("cannot-overfit-one-batch", load_script(SOUND))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary
    assert "16 samples overfitted" in verdict.summary


def test_every_measurement_begins_where_the_first_began(load_script: LoadScript) -> None:
    trial = load_script(SOUND, "--epochs", "1")
    seen = []
    for _ in range(2):
        with restored(trial):
            weight = next(trial.models["model"].parameters())
            start = weight.detach().clone()
            batch = next(trial.validation_batches())
            trial.evaluate_step(batch)
            seen.append((start, weight.detach().clone()))
    assert torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][0], seen[0][1]), "it is evaluated with the weights it had when that was asked"


def test_modes_of_the_script_are_its_own(load_script: LoadScript) -> None:
    trial = load_script(HEAD + LOOPS["at module level"])
    with restored(trial):
        batch = next(trial.validation_batches())
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        trial.evaluate_step(batch)
        assert not torch.is_inference_mode_enabled()
        trial.train_step(next(trial.train_batches()), 0)
        assert torch.is_grad_enabled()


def test_places_are_told_from_where_mlcheck_was_started(load_script: LoadScript, tmp_path: Path) -> None:
    """A script that leaves its folder for one above it makes its own file no stranger."""
    text = broken("missing-zero-grad").replace(
        "    for epoch in", f"    import os; os.chdir({str(tmp_path.parent)!r})\n    for epoch in"
    )
    verdict = ask("missing-zero-grad", load_script(text))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].location.path == "train.py"


def test_a_file_opened_past_the_redirections_is_refused(load_script: LoadScript) -> None:
    text = SOUND.replace("import torch\n", "import torch, _io\n", 1).replace(
        "    for epoch in", "    _io.FileIO('past.txt', 'w')\n    for epoch in"
    )
    with pytest.raises(PermissionError, match=r"nothing is written to .*past\.txt"):
        load_script(text)
    assert not Path("past.txt").exists()


def test_a_stream_for_validation_has_no_length(load_script: LoadScript) -> None:
    stream = """class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return zip(x[64:], y[64:])
test_loader = DataLoader(Stream(), 16)
"""
    text = SOUND.replace("test_loader = DataLoader(TensorDataset(x[64:], y[64:]), 16)\n", stream)
    text = text.replace("right / len(loader.dataset)", "right / 32")
    trial = load_script(text, "--epochs", "2")
    assert "evaluates at train.py" in trial.notices[0]
    assert trial.validation_batches is not None
    assert next(iter(trial.validation_batches()))[0].shape == (16, 8)


COUNTING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

class Stream(IterableDataset):
    def __init__(self):
        self.epoch = 0
    def __iter__(self):
        order = torch.randperm(32, generator=torch.Generator().manual_seed(self.epoch))
        self.epoch += 1
        yield from torch.eye(32)[order]

def main():
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(Stream(), 8)
    for epoch in range(20):
        for x in loader:
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()

main()
"""


def test_what_a_data_set_counts_is_put_back(load_script: LoadScript) -> None:
    """A stream that shuffles by the number of its epoch gives the same batches to the same question."""
    trial = load_script(COUNTING)
    with restored(trial):
        passes = []
        for _ in range(2):
            with restored(trial):
                passes.append(list(trial.train_batches()))
    assert all(torch.equal(one, other) for one, other in zip(*passes, strict=True))


WEIGHTS_BY_HAND = """
import torch
weights = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.01)
x = torch.randn(64, 4)
for step in range({steps}):
    optimizer.zero_grad()
    (x @ weights - x.sum(1)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("steps", ["20", "10**9"])
def test_weights_that_no_module_holds_cannot_be_followed(
    load_script: LoadScript, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcheck.trial.script.adapter._SCOUTING_S", 0.5)
    with pytest.raises(EntryError, match="nothing to follow its steps by; put the weights into"):
        load_script(WEIGHTS_BY_HAND.format(steps=steps))


LONG_ROLLOUT = """
import torch
from torch import nn
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
for round_ in range(50):
    seen = []
    for _ in range(1200):
        state = torch.randn(1, 4)
        with torch.no_grad():
            actor(state)
        seen.append(state)
    for states in torch.cat(seen).split(300):
        loss = (actor(states) - states[:, :2]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_long_rollout_before_the_first_step_is_waited_for(load_script: LoadScript) -> None:
    trial = load_script(LONG_ROLLOUT)
    with restored(trial):
        for index, batch in zip(range(6), trial.train_batches()):
            trial.train_step(batch, index)


TWO_TRAININGS = """
def fit(net, loader, evaluated):
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(3):
        net.train()
        for data, target in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(data), target).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for data, target in evaluated:
                print((net(data).argmax(1) == target).float().mean().item())

fit(model, train_loader, [])
other = DataLoader(TensorDataset(7 * x, y), 16)
fit(OTHER, DataLoader(TensorDataset(9 * x, y), 16), other)
"""


@pytest.mark.parametrize(("other", "evaluates"), [("Net()", False), ("nn.Sequential(model, nn.Linear(5, 5))", True)])
def test_the_evaluation_of_another_model_is_not_that_of_the_training(
    load_script: LoadScript, other: str, evaluates: bool
) -> None:
    trial = load_script(HEAD + TWO_TRAININGS.replace("OTHER", other))
    assert trial.loaders["training"].dataset.tensors[0].shape == (64, 8)
    assert (trial.evaluate_step is not None) is evaluates
