"""The programs under examples/: the sound ones pass every item, the broken ones fail the one that was planted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import pytest
from probe_programs import examined

from mlcheck.checklist import Questions, run_checklist
from mlcheck.core.catalog import Catalog
from mlcheck.core.causes import causes
from mlcheck.core.outcome import By, Outcome
from mlcheck.core.report import Report
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.probe.chosen import probe_rules
from mlcheck.probe.engine import ProbeOptions
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.trial import Trial

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SOUND = ["diabetes", "digits", "digits_function", "wine_loop", "wine_script"]
AS_A_USER = {"digits", "wine_script"}  # once of each kind in a process of its own is enough
ALARMS = {Outcome.FAIL, Outcome.ERROR, Outcome.WARN}

# A folder of examples/broken -> the rule that must be named as the cause, where it is not the folder's own name.
NAMED_OTHERWISE = {
    "batch_mixing": "softmax-over-batch",
    "cannot_overfit_one_batch": "learning-rate-too-low",
    "crash": "entry-does-not-run",
    "empty_loader": "entry-does-not-run",
    "entry_does_not_run": "undeclared-hyperparameter",
    "hang": "entry-does-not-run",
    "loader_raises_at_17": "unreadable-sample",
    "nan_loss": "non-finite-gradient",
    "parameter_never_changes": "backward-without-step",
    "random_evaluation": "functional-dropout-unflagged",
    "script_without_eval": "missing-eval-mode",
}
BROKEN = sorted(path.name for path in (EXAMPLES / "broken").iterdir() if path.is_dir())
# What lint alone must find, without running anything.
READ = {
    "batch_mixing",
    "eval_without_no_grad",
    "missing_eval_mode",
    "train_not_restored",
    "clip_before_unscale",
    "missing_zero_grad",
    "nll_without_log_softmax",
    "parameter_never_changes",
    "parameter_without_gradient",
    "random_evaluation",
    "script_without_eval",
    "sigmoid_before_bcelogits",
    "softmax_before_ce",
    "training_under_no_grad",
    "zero_grad_before_step",
}


# What ends a process, or the loading of an entry point, is examined in a process of its own.
ENDS = {"crash", "empty_loader", "entry_does_not_run", "hang"}


def planted(folder: str) -> str:
    return NAMED_OTHERWISE.get(folder, folder.replace("_", "-"))


def check(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 0, time_limit: float = 60.0) -> Report:
    """What `mlcheck check` reports of an example, run in its folder as a user would."""
    monkeypatch.chdir(folder)
    has_config = Path("experiment.yaml").is_file()
    by_hand = "train.py" if "script" in folder.name else "train:build"
    entry = f"model_def:{trial_class(folder)}" if has_config else by_hand
    config = "experiment.yaml" if has_config else ""
    options = ProbeOptions(entry=entry, config=config, seed=seed, time_limit=time_limit)
    return run_checklist((".",), LintSettings(), options, Questions(Path("signoff.toml")))


def trial_class(folder: Path) -> str:
    entry = next(line for line in (folder / "experiment.yaml").read_text().splitlines() if "entrypoint" in line)
    return entry.rpartition(":")[2]


ProbesHere = Callable[..., None]


@pytest.fixture
def probes_here(driven: Callable[[Trial], Trial], monkeypatch: pytest.MonkeyPatch) -> ProbesHere:
    """Lets `check` probe in this process, which has imported PyTorch already: most of a short examination is that."""
    known = [name for name in probe_rules() if not Catalog()[name].needs]

    def probe(asked: list[str], options: ProbeOptions, _: object) -> Report:
        config = Path(options.config) if options.config else None
        trial = driven(load_trial(options.entry, EntryOptions(config=config, seed=options.seed)))
        results = tuple(examined(trial, *asked, seed=options.seed).values())
        return Report("probe", options.entry, results)

    def patch(rules: Collection[str] = known) -> None:
        asked = [name for name in known if name in rules]
        monkeypatch.setattr("mlcheck.checklist.run_probes", partial(probe, asked))

    return patch


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_example_passes_every_item(name: str, monkeypatch: pytest.MonkeyPatch, probes_here: ProbesHere) -> None:
    if name not in AS_A_USER:
        probes_here()
    report = check(EXAMPLES / name, monkeypatch)
    decided = {item.decided.rule: item for item in report.items() if item.decided.by is not By.SIGN_OFF}
    assert not {rule: item.decided.headline for rule, item in decided.items() if item.outcome in ALARMS}
    seen = [item for item in decided.values() if item.decided.by is By.PROBE and item.outcome is Outcome.PASS]
    assert len(seen) >= 5, "too little was looked at for silence to mean anything"


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_the_report_on_a_broken_example_begins_with_its_fault(
    name: str, monkeypatch: pytest.MonkeyPatch, probes_here: ProbesHere
) -> None:
    if name in READ:  # what lint has found needs no other probe than those it explains
        probes_here({planted(name), *Catalog()[planted(name)].explains})
    elif name not in ENDS:
        probes_here()
    report = check(EXAMPLES / "broken" / name, monkeypatch, time_limit=15.0 if name == "hang" else 60.0)
    found = causes(report.items())
    assert found, "nothing was found"
    first = found[0].item.decided
    assert first.rule == planted(name), [(cause.item.decided.rule, cause.item.decided.headline) for cause in found]
    assert first.headline


@pytest.mark.parametrize("name", BROKEN)
def test_lint_reads_the_faults_that_can_be_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES / "broken" / name)
    alarms = {item.decided.rule for item in run_lint((".",), LintSettings()).items() if item.outcome in ALARMS}
    assert alarms == ({planted(name)} if name in READ else set())


@pytest.mark.parametrize("name", SOUND)
def test_lint_is_silent_on_what_is_sound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES / name)
    assert not [item.decided.headline for item in run_lint((".",), LintSettings()).items() if item.outcome in ALARMS]


def test_every_example_is_in_the_table() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {
        "broken",
        "digit_service",
    }  # a service: for `load`
    assert folders == set(SOUND)
    assert set(NAMED_OTHERWISE) | READ <= set(BROKEN)
