"""Whole examinations in child processes: whatever the program does, the report is complete and says one clear line."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from mlcheck.core.catalog import UnknownRule
from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report, Result, report_from_dict
from mlcheck.probe.chosen import ENTRY_RULE, probe_rules
from mlcheck.probe.engine import Interrupted, ProbeOptions, run_probes
from mlcheck.trial import child

SEEDED = (
    "batch-not-reviewed",
    "missing-zero-grad",
    "initial-loss-too-high",
    "dead-units",
    "samples-repeat",
    "batch-mixing",
)
REJECTS = "from mlcheck.trial.trial import RejectedConfig; raise RejectedConfig('too wide')"  # Determined's InvalidHP
PROGRAM = """
    import ctypes, os, sys, time
    import torch
    from torch import nn

    def build():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
        {building}
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        data = [(torch.randn(32, 4), torch.randint(3, (32,))) for _ in range(3)]
        steps = [0]

        def train_step(batch):
            steps[0] += 1
            {stepping}
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1]) {loss}
            loss.backward()
            optimizer.step()
            return {{"loss": loss.item()}}

        return {{"model": model, "optimizer": optimizer, "train_loader": {data}, "train_step": train_step}}
"""


def examine(
    folder: Path,
    building: str = "pass",
    stepping: str = "pass",
    loss: str = "",
    data: str = "data",
    entry: str = "program.py:build",
    **options: object,
) -> Report:
    text = dedent(PROGRAM).format(building=building, stepping=stepping, loss=loss, data=data)
    (folder / "program.py").write_text(text, encoding="utf-8")
    report = run_probes(ProbeOptions(entry=entry, folder=str(folder), **options))  # type: ignore[arg-type]
    assert {result.rule for result in report.results} >= {ENTRY_RULE}
    assert report_from_dict(report.to_dict()) == report
    return report


def before_work(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """What the child does before anything else."""
    monkeypatch.setattr(child, "_CODE", child._CODE.replace("main(job)", f"{line}; main(job)"))


def result(report: Report, rule: str) -> Result:
    return next(result for result in report.results if result.rule == rule)


def others_are_skipped(report: Report) -> bool:
    others = [result for result in report.results if result.rule != ENTRY_RULE]
    return len(others) > 10 and all(result.outcome is Outcome.SKIP and result.reason for result in others)


def test_an_evaluation_that_raises_is_told_once(tmp_path: Path) -> None:
    evaluated = '"train_step": train_step, "validation_loader": data, "evaluate_step": lambda batch: batch["scores"]}}'
    text = dedent(PROGRAM.replace('"train_step": train_step}}', evaluated))
    (tmp_path / "program.py").write_text(text.format(building="pass", stepping="pass", loss="", data="data"), "utf-8")
    report = run_probes(ProbeOptions(entry="program.py:build", folder=str(tmp_path)))
    assert [one.rule for one in report.results if one.outcome in {Outcome.FAIL, Outcome.ERROR}] == [ENTRY_RULE]


def test_a_sound_program(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    text = dedent(PROGRAM).format(building="pass", stepping="pass", loss="", data="data")
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    report = run_probes(ProbeOptions(entry="program.py:build", folder=str(tmp_path)), lambda *step: seen.append(step))
    bad = {Outcome.FAIL, Outcome.WARN, Outcome.ERROR}
    assert not [result for result in report.results if result.outcome in bad]
    assert {result.rule for result in report.results} == set(probe_rules())
    assert result(report, "cannot-overfit-one-batch").outcome is Outcome.PASS
    assert report.command == "probe"
    assert report.subject == "program.py:build"
    assert {"python", "torch", "device", "platform"} <= set(report.environment)
    assert 0 < report.step_seconds < report.seconds
    assert seen[-1][1:] == (len(report.results), len(report.results))


def test_the_parent_imports_no_torch(tmp_path: Path) -> None:
    import subprocess

    code = "import sys; import mlcheck.probe.engine; sys.exit('torch' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ({"entry": "absent:build"}, Outcome.ERROR, "no module `absent`"),
        ({"entry": "program.py:torch"}, Outcome.ERROR, "cannot be driven"),
        ({"building": "raise ValueError('no disk')"}, Outcome.FAIL, "ValueError: no disk"),
        ({"building": "sys.exit(3)"}, Outcome.FAIL, "sys.exit(3)"),
        ({"building": REJECTS}, Outcome.ERROR, "the trial rejects its hyperparameters: too wide"),
        ({"data": "[]"}, Outcome.FAIL, "empty"),
        ({"stepping": "os._exit(7)"}, Outcome.FAIL, "exited with code 7"),
        ({"stepping": "ctypes.string_at(0)"}, Outcome.FAIL, "SIGSEGV"),
        (
            {"stepping": "time.sleep(100)", "time_limit": 4.0},
            Outcome.FAIL,
            "nothing was heard from the process for 4 s",
        ),
    ],
    ids=["module", "not-a-trial", "constructor", "exit", "rejected", "empty", "os-exit", "segfault", "hang"],
)
def test_a_program_that_does_not_run(fault: dict[str, object], outcome: Outcome, words: str, tmp_path: Path) -> None:
    report = examine(tmp_path, **fault)  # type: ignore[arg-type]
    entry = result(report, ENTRY_RULE)
    assert entry.outcome is outcome
    assert words in entry.headline
    assert "\n" not in entry.headline
    assert others_are_skipped(report)


@pytest.mark.slow
def test_a_program_that_only_needs_longer_is_not_called_broken(tmp_path: Path) -> None:
    report = examine(tmp_path, stepping="while True: pass", time_limit=2.0)
    entry = result(report, ENTRY_RULE)
    assert entry.outcome is Outcome.INCONCLUSIVE
    assert "nothing was heard from the process for 2 s" in entry.headline
    assert "it was computing all the while" in entry.headline
    assert "raise --time-limit" in entry.findings[0].help
    assert others_are_skipped(report)


@pytest.mark.slow
def test_a_program_that_outlasts_the_budget_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before_work(monkeypatch, "import mlcheck.probe.examination as e; e._GRACE_S = 1.0")
    entry = result(examine(tmp_path, stepping="time.sleep(100)", budget=6.0), ENTRY_RULE)
    assert "the budget of 6 s was spent on it" in entry.headline
    assert "raise --budget" in entry.findings[0].help


def test_a_step_that_raises_leaves_the_data_to_be_looked_at(tmp_path: Path) -> None:
    report = examine(tmp_path, stepping="raise KeyError('image')")
    entry = result(report, ENTRY_RULE)
    assert entry.outcome is Outcome.FAIL
    assert "training step raised KeyError: 'image'" in entry.headline
    assert entry.traceback.splitlines()[-1] == "KeyError: 'image'"
    assert entry.findings[0].location.line == 16
    assert result(report, "missing-zero-grad").outcome is Outcome.SKIP
    assert result(report, "non-finite-batch").outcome is Outcome.PASS


def test_hyperparameters_rejected_within_a_step_were_not_examined(tmp_path: Path) -> None:
    report = examine(tmp_path, stepping=REJECTS, only=("missing-zero-grad",))
    assert result(report, ENTRY_RULE).outcome is Outcome.ERROR
    assert "too wide; choose others with --hp" in result(report, ENTRY_RULE).headline
    assert result(report, "missing-zero-grad").outcome is Outcome.SKIP


def test_a_loss_that_is_nan(tmp_path: Path) -> None:
    entry = result(examine(tmp_path, loss="* float('nan')", only=(ENTRY_RULE,)), ENTRY_RULE)
    assert entry.outcome is Outcome.FAIL
    assert "loss = NaN at step 1" in entry.headline


def test_a_crash_in_one_probe_costs_only_that_measurement(tmp_path: Path) -> None:
    rules = ("missing-zero-grad", "parameter-never-changes", "batch-mixing", "non-finite-batch")
    report = examine(
        tmp_path, stepping="open('count', 'a').write('x'); os.path.getsize('count') == 5 and os._exit(1)", only=rules
    )
    crashed = [result for result in report.results if result.outcome is Outcome.ERROR]
    assert [result.rule for result in crashed] == ["missing-zero-grad"]
    assert "see missing-zero-grad" in result(report, "parameter-never-changes").reason
    assert result(report, "batch-mixing").outcome is Outcome.PASS
    assert "exited with code 1" in crashed[0].headline
    assert result(report, "non-finite-batch").outcome is Outcome.PASS
    assert {result.rule for result in report.results} == {ENTRY_RULE, *rules}


def test_a_probe_that_takes_too_long_decides_nothing(tmp_path: Path) -> None:
    report = examine(
        tmp_path,
        stepping="open('count', 'a').write('x'); os.path.getsize('count') == 5 and time.sleep(100)",
        time_limit=4.0,
        only=("missing-zero-grad", "batch-mixing"),
    )
    late = result(report, "missing-zero-grad")
    assert late.outcome is Outcome.INCONCLUSIVE
    assert "for 4 s" in late.headline
    assert "--time-limit" in late.findings[0].help
    assert result(report, "batch-mixing").outcome is Outcome.PASS


def test_a_budget_that_is_spent_leaves_a_complete_report(tmp_path: Path) -> None:
    report = examine(tmp_path, budget=0.0)
    left = [one for one in report.results if "choose it with --only" not in one.reason]
    assert {one.outcome for one in left} == {Outcome.INCONCLUSIVE}, "what was not asked is open, not done with"
    assert all("the budget of 0 s was spent" in one.reason for one in left)


def test_an_interruption_keeps_what_was_answered(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        dedent(PROGRAM).format(building="pass", stepping="pass", loss="", data="data"), encoding="utf-8"
    )

    def leave(_: str, done: int, __: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    only = ("missing-zero-grad", "dead-units", "samples-repeat", "batch-mixing")
    with pytest.raises(Interrupted) as cut:
        run_probes(ProbeOptions(entry="program.py:build", folder=str(tmp_path), only=only), leave)
    report = cut.value.report
    left = [one for one in report.results if one.reason == "interrupted before it was answered"]
    assert [one.outcome for one in left] == [Outcome.INCONCLUSIVE] * 2
    assert result(report, ENTRY_RULE).outcome is Outcome.PASS
    assert "interrupted with 2 of 5 probes open" in report.notices


def test_the_same_seed_gives_the_same_report(tmp_path: Path) -> None:
    one, other = (examine(tmp_path, only=SEEDED, seed=3) for _ in range(2))
    plain = [[replace(result, seconds=0.0) for result in report.results] for report in (one, other)]
    assert plain[0] == plain[1]
    assert {Outcome.PASS} <= {result.outcome for result in one.results}


def test_places_are_told_from_where_mlcheck_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path)
    report = examine(Path("code"), stepping="raise KeyError('image')", only=(ENTRY_RULE,))
    assert result(report, ENTRY_RULE).findings[0].location.path == "code/program.py"


def test_only_and_skip_choose_rules() -> None:
    assert probe_rules(only=("batch-mixing",)) == (ENTRY_RULE, "batch-mixing")
    assert "batch-mixing" not in probe_rules(skip=("batch-mixing",))
    scale = probe_rules(only=("scale",))
    assert "ranks-drift-apart" in scale
    assert "batch-mixing" not in scale
    assert set(scale) & set(probe_rules(skip=("scale",))) == {ENTRY_RULE}
    with pytest.raises(UnknownRule, match="did you mean `batch-mixing`"):
        probe_rules(only=("batch-mixin",))


def test_the_program_sees_no_arguments_of_mlcheck(tmp_path: Path) -> None:
    report = examine(tmp_path, building="assert len(sys.argv) == 1, sys.argv", only=(ENTRY_RULE,))
    assert result(report, ENTRY_RULE).outcome is Outcome.PASS


def test_a_fault_of_mlcheck_itself_is_not_blamed_on_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_work(monkeypatch, "import mlcheck.probe.worker as w; w.machine = lambda: 1 / 0")
    report = examine(tmp_path)
    entry = result(report, ENTRY_RULE)
    assert entry.outcome is Outcome.ERROR
    assert "mlcheck itself failed: ZeroDivisionError" in entry.headline
    assert others_are_skipped(report)


@pytest.mark.usefixtures("started_anew")
def test_a_probe_that_takes_too_much_memory_is_stopped_and_the_others_go_on(tmp_path: Path) -> None:
    taking = "steps[0] > 30 and (steps.append(bytearray(2_000_000_000)), __import__('time').sleep(60))"
    rules = ("cannot-overfit-one-batch", "missing-zero-grad", "dead-units")
    report = examine(tmp_path, stepping=taking, only=rules, memory_limit=2_000_000_000)
    stopped = result(report, "cannot-overfit-one-batch")
    assert stopped.outcome is Outcome.INCONCLUSIVE
    assert "more than the memory limit of 2 GB" in stopped.headline
    assert "--memory-limit" in stopped.findings[0].help
    assert stopped.findings[0].location.path.endswith("program.py")
    assert {result(report, rule).outcome for rule in rules[1:]} == {Outcome.PASS}


UNHARMED = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(400):
        x = torch.randn(8, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError:
            pass
        optimizer.step()
"""


def test_a_script_survives_what_torch_raises_in_it(tmp_path: Path) -> None:
    """Torch walks up the stack for each of its errors, and a script's stands on another than it began on."""
    (tmp_path / "train.py").write_text(dedent(UNHARMED), encoding="utf-8")
    asked = ("regression-broadcast", "signal-fades-with-depth", "missing-zero-grad", "parameter-never-changes")
    report = run_probes(ProbeOptions(entry="train.py", folder=str(tmp_path), only=asked))
    assert not [one for one in report.results if one.outcome in {Outcome.ERROR, Outcome.FAIL, Outcome.WARN}]
    assert result(report, "parameter-never-changes").outcome is Outcome.PASS


def test_a_package_that_lacks_an_extra_lies_in_no_folder(tmp_path: Path) -> None:
    report = examine(tmp_path, building="raise ModuleNotFoundError('requirement not met: parser[signatures]')")
    assert "start mlcheck there" not in result(report, ENTRY_RULE).findings[0].help
