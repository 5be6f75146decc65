"""Scripts that nobody prepared: driven one batch at a time, begun anew, and leaving nothing behind."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from probe_programs import ask, examined
from script_programs import DRAWN, FAULTS, HEAD, IN_ORDER, LOOPS, SOUND, broken

from mlcheck.core.outcome import Outcome
from mlcheck.trial.sandbox import restored
from mlcheck.trial.script.adapter import build
from mlcheck.trial.script.program import Script
from mlcheck.trial.trial import EntryError, NotReached, Trial

Load = Callable[..., Trial]
ALARMS = {Outcome.FAIL, Outcome.WARN, Outcome.ERROR}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Make a trial of a script's text; its runs are ended and all patches taken back afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLCHECK_SCRATCH", str(tmp_path.parent / f"{tmp_path.name}-scratch"))
    trials = []

    def loaded(text: str, *arguments: str) -> Trial:
        Path("train.py").write_text(text, encoding="utf-8")
        trials.append(build(Script(Path("train.py"), arguments), ("train.py", 1)))
        return trials[-1]

    yield loaded
    for trial in reversed(trials):
        assert trial.progress
        trial.progress.close()


def test_a_sound_script_is_seen_whole(load: Load) -> None:
    trial = load(SOUND, "--epochs", "2")
    assert list(trial.models) == ["model"]
    assert list(trial.optimizers) == ["optimizer"]
    assert "trains at train.py:29 and evaluates at train.py:39" in trial.notices[0]
    verdicts = {rule: ask(rule, trial) for rule in (*FAULTS, "zero-grad-before-step", "random-evaluation")}
    assert {rule: v.outcome for rule, v in verdicts.items()} == dict.fromkeys(verdicts, Outcome.PASS)


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_is_found_where_it_is(load: Load, rule: str) -> None:
    verdict = ask(rule, load(broken(rule), "--epochs", "2"))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary


@pytest.mark.parametrize("form", LOOPS)
def test_loops_in_other_forms_are_sound_too(load: Load, form: str) -> None:
    trial = load(HEAD + LOOPS[form], "--epochs", "2")
    for rule in ("missing-zero-grad", "missing-eval-mode", "train-not-restored", "parameter-never-changes"):
        verdict = ask(rule, trial)
        assert verdict.outcome is Outcome.PASS, (rule, verdict.reason or verdict.summary)
        assert verdict.looked_at


@pytest.mark.parametrize("form", LOOPS)
def test_a_fault_is_found_in_every_form_of_loop(load: Load, form: str) -> None:
    text = (HEAD + LOOPS[form]).replace("model.eval()", "pass").replace("optimizer.zero_grad", "str")
    trial = load(text.replace("model.train(training)", "model.train()"), "--epochs", "2")
    assert ask("missing-zero-grad", trial).outcome is Outcome.FAIL
    assert ask("missing-eval-mode", trial).outcome is Outcome.FAIL


def test_a_loop_that_begins_its_loader_anew_stays_the_same_loop(load: Load) -> None:
    trial = load(HEAD + LOOPS["evaluated at first and seldom after"])
    with restored(trial):
        for index, batch in enumerate([*trial.train_batches()] * 5):
            trial.train_step(batch, index)
        trial.evaluate_step(next(trial.validation_batches()))
        assert len([*trial.train_batches()]) == 4


def test_memorising_with_the_batch_that_it_is_given(load: Load) -> None:
    verdict = ask("cannot-overfit-one-batch", load(SOUND))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary
    assert "16 samples learnt by heart" in verdict.summary


def test_every_measurement_begins_where_the_first_began(load: Load) -> None:
    trial = load(SOUND, "--epochs", "1")
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


def test_a_script_that_ends_says_what_to_do(load: Load) -> None:
    trial = load(SOUND, "--epochs", "1")
    with restored(trial):
        trial.evaluate_step(next(trial.validation_batches()))
        with pytest.raises(NotReached, match=r"ended after \d+ training steps: give it arguments for more epochs"):
            trial.train_step(next(trial.train_batches()), 0)


def test_one_epoch_is_enough_to_evaluate_before_training(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that takes long is not repeated for every measurement; steps of an earlier one lose nothing now."""
    monkeypatch.setattr("mlcheck.trial.script.driver._QUICK_S", 0.0)
    trial = load(SOUND, "--epochs", "1")
    with restored(trial):
        trial.train_step(next(trial.train_batches()), 0)
    with restored(trial):
        with restored(trial):
            trial.evaluate_step(next(trial.validation_batches()))
        trial.train_step(next(trial.train_batches()), 0)
        trial.evaluate_step(next(trial.validation_batches()))


def test_what_fails_for_want_of_batches_is_not_the_scripts_fault(load: Load) -> None:
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
    trial = load(counting, "--epochs", "3")
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


def test_a_script_that_stops_early_with_weights_held_still(load: Load) -> None:
    results = examined(load(HEAD + STOPS_EARLY), "entry-does-not-run", "later-step-breaks", "dead-units")
    assert results["entry-does-not-run"].outcome is Outcome.PASS
    assert results["later-step-breaks"].outcome is Outcome.PASS
    assert results["dead-units"].outcome is Outcome.INCONCLUSIVE
    assert "IndexError: list index out of range" in results["dead-units"].reason


def test_modes_of_the_script_are_its_own(load: Load) -> None:
    trial = load(HEAD + LOOPS["at module level"])
    with restored(trial):
        batch = next(trial.validation_batches())
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
        trial.evaluate_step(batch)
        assert not torch.is_inference_mode_enabled()
        trial.train_step(next(trial.train_batches()), 0)
        assert torch.is_grad_enabled()


def test_what_a_script_raises_comes_out(load: Load) -> None:
    with pytest.raises(ZeroDivisionError):
        load("1 / 0")
    with pytest.raises(ModuleNotFoundError):
        load("import nothing_of_this_name")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("print('hello')", "ended without a training step"),
        ("import sys; sys.exit('give --data')", "sys.exit.'give --data'."),
        ("import torch; torch.nn.Linear(2, 2)(torch.ones(2)); raise SystemExit", "arguments with which it trains"),
    ],
)
def test_a_script_that_does_not_train(load: Load, text: str, told: str) -> None:
    with pytest.raises(EntryError, match=told):
        load(text)


def test_nothing_is_left_behind(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It appends to a log, replaces a checkpoint, removes a file, makes folders, moves, changes directory and argv."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    Path("old.log").write_text("kept\n", encoding="utf-8")
    Path("model.pt").write_text("a checkpoint of last week", encoding="utf-8")
    Path("gone.txt").write_text("still here", encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    litter = """
import os, pathlib, shutil, sys
sys.argv = ["changed"]
with open("old.log", "a") as log:
    log.write("more")
assert pathlib.Path("old.log").read_text() == "kept\\nmore"
os.remove("gone.txt")
assert not os.path.exists("gone.txt")
os.makedirs("runs/one", exist_ok=True)
pathlib.Path("runs/one/note.txt").write_text("x")
os.rename("runs/one/note.txt", "runs/one/moved.txt")
assert os.listdir("runs/one") == ["moved.txt"]
assert [path.name for path in pathlib.Path("runs/one").iterdir()] == ["moved.txt"]
pathlib.Path("~/cache.bin").expanduser().write_bytes(b"1")
os.chdir("runs/one")
"""
    text = SOUND.replace("    for epoch in", litter.replace("\n", "\n    ") + "\n    for epoch in")
    trial = load(text)
    with restored(trial):
        trial.evaluate_step(next(trial.validation_batches()))
    assert trial.progress
    trial.progress.close()
    now = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "train.py"}
    assert now == before
    assert not (tmp_path / "runs").exists()
    assert os.getcwd() == str(tmp_path)
    told = next(notice for notice in trial.notices if "scratch folder" in notice)
    assert "old.log" in told
    assert "gone.txt" in told


def test_what_compiled_code_writes_is_led_away_too(load: Load, tmp_path: Path) -> None:
    litter = """
import safetensors.torch, warnings
warnings.simplefilter("ignore")
safetensors.torch.save_file({"x": x}, "model.safetensors")
assert torch.equal(safetensors.torch.load_file("model.safetensors")["x"], x)
torch.jit.save(torch.jit.script(nn.Linear(2, 2)), "model.ts")
torch.jit.load("model.ts")
"""
    pytest.importorskip("safetensors")
    trial = load(SOUND.replace("    for epoch in", litter.replace("\n", "\n    ") + "\n    for epoch in"))
    assert trial.progress
    trial.progress.close()
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    told = next(notice for notice in trial.notices if "scratch folder" in notice)
    assert "model.safetensors, model.ts" in told


def test_an_archive_that_is_unpacked_lands_in_the_scratch_folder(load: Load, tmp_path: Path) -> None:
    """As a downloaded data set is; `tarfile` holds on to the built-in `open`, and so may other modules."""
    with tarfile.open(tmp_path.parent / "data.tgz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("data/x.txt"))
    unpack = """
    import tarfile, numpy
    tarfile.open('../data.tgz').extractall(filter='data')
    open('data/x.txt').close()
    numpy.savetxt('data/y.txt', x.numpy())
    assert len(numpy.loadtxt('data/y.txt')) == 96
"""
    trial = load(SOUND.replace("    for epoch in", f"{unpack}    for epoch in"))
    assert trial.progress
    trial.progress.close()
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_places_are_told_from_where_mlcheck_was_started(load: Load, tmp_path: Path) -> None:
    """A script that leaves its folder for one above it makes its own file no stranger."""
    text = broken("missing-zero-grad").replace(
        "    for epoch in", f"    import os; os.chdir({str(tmp_path.parent)!r})\n    for epoch in"
    )
    verdict = ask("missing-zero-grad", load(text))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].location.path == "train.py"


@pytest.mark.parametrize("code", ["0", "3", "'no more data'"])
def test_a_script_that_leaves_in_the_middle(load: Load, code: str) -> None:
    """`sys.exit` in the first epoch's evaluation: what was seen until then is examined."""
    text = SOUND.replace("    model.eval()\n", f"    model.eval()\n    import sys; sys.exit({code})\n")
    verdict = ask("missing-zero-grad", load(text))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary


def test_a_file_opened_past_the_redirections_is_refused(load: Load) -> None:
    text = SOUND.replace("import torch\n", "import torch, _io\n", 1).replace(
        "    for epoch in", "    _io.FileIO('past.txt', 'w')\n    for epoch in"
    )
    with pytest.raises(PermissionError, match=r"nothing is written to .*past\.txt"):
        load(text)
    assert not Path("past.txt").exists()


def test_a_script_without_loader_is_driven_from_one_forward_pass_to_the_next(load: Load) -> None:
    trial = load(DRAWN)
    assert "without a DataLoader" in trial.notices[0]
    for rule in ("missing-zero-grad", "missing-eval-mode", "train-not-restored", "cannot-overfit-one-batch"):
        verdict = ask(rule, trial)
        assert verdict.outcome is Outcome.PASS, (rule, verdict.reason or verdict.summary)


@pytest.mark.parametrize("rule", ["missing-zero-grad", "missing-eval-mode", "train-not-restored"])
def test_a_fault_is_found_without_a_loader(load: Load, rule: str) -> None:
    line = {"missing-zero-grad": "optimizer.zero_grad()", "missing-eval-mode": "model.eval()"}.get(
        rule, "model.train()"
    )
    verdict = ask(rule, load(DRAWN.replace(line, "pass")))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary


def test_nothing_is_said_about_batches_that_are_drawn_within_a_step(load: Load) -> None:
    rules = ("non-finite-batch", "training-data-not-shuffled", "loader-slower-than-step", "label-out-of-range")
    found = {rule: result.outcome for rule, result in examined(load(DRAWN), *rules).items()}
    assert found == {**dict.fromkeys(rules, Outcome.SKIP), "label-out-of-range": Outcome.PASS}


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
    load: Load, clears: str, outcome: Outcome
) -> None:
    trial = load(HEAD + ONE_BATCH.replace("optimizer.zero_grad()", clears))
    assert "without a DataLoader" in trial.notices[0]
    assert ask("missing-zero-grad", trial).outcome is outcome


def test_a_script_that_cannot_be_followed_step_by_step_decides_nothing(load: Load) -> None:
    """It calls no module, as the forward-forward example does: nothing tells where a step begins."""
    trial = load(HEAD + ONE_BATCH.replace("model(x_all)", "x_all @ model.body.weight[:5].T"))
    result = examined(trial, "missing-zero-grad")["missing-zero-grad"]
    assert result.outcome is Outcome.INCONCLUSIVE
    assert "ended after" in result.reason


def test_a_batch_that_cannot_be_had_twice_is_not_learnt_by_heart(load: Load) -> None:
    verdict = ask("cannot-overfit-one-batch", load(IN_ORDER))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "none can be had twice" in verdict.reason


def test_a_script_that_evaluates_at_its_end_is_trained_after_it_was_evaluated(load: Load) -> None:
    """What a measurement compares before and after training has the same weights at its beginning both times."""
    text = SOUND.replace("        test(test_loader)\n", "    test(test_loader)\n").replace("torch.manual_seed(0)\n", "")
    trial = load(text, "--epochs", "2")
    assert ask("non-finite-gradient", trial).outcome is Outcome.PASS
    with restored(trial):
        before = [p.detach().clone() for p in trial.models["model"].parameters()]
        with restored(trial):
            trial.evaluate_step(next(trial.validation_batches()))
        after = list(trial.models["model"].parameters())
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        trial.train_step(next(trial.train_batches()), 0)
        assert not torch.equal(after[0], before[0])
