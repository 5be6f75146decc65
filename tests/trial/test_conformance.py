"""The same program, sound and with the same faults, in every form: the verdicts must be the same too."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forms import EXPECTED, FORMS, TOGETHER, program, rules_of
from probe_programs import Asked

from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import load_trial
from mlcheck.trial.trial import Trial

Load = Callable[[str, str], Trial]
pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLCHECK_SCRATCH", str(tmp_path.parent / f"{tmp_path.name}-scratch"))
    trials = []

    def loaded(entry: str, text: str) -> Trial:
        Path("train.py").write_text(text, encoding="utf-8")
        trials.append(load_trial(entry))
        return trials[-1]

    yield loaded
    for trial in reversed(trials):  # what was patched last is undone first
        if trial.progress:
            trial.progress.close()


@pytest.mark.slow
@pytest.mark.parametrize("together", [None, *TOGETHER])
@pytest.mark.parametrize("name", FORMS)
def test_the_same_verdicts_in_every_form(load: Load, name: str, together: str | None) -> None:
    form = FORMS[name]
    if form.needs and importlib.util.find_spec(form.needs) is None:
        pytest.skip(f"{form.needs} is not installed")
    faults = rules_of(form, TOGETHER[together]) if together else ()
    trial = load(form.entry, program(form, faults))
    expected = {fault: EXPECTED[fault] for fault in faults} or dict.fromkeys(
        rules_of(form, tuple(EXPECTED)), Outcome.PASS
    )
    asked = Asked(trial)
    verdicts = {rule: asked.verdict(rule) for rule in expected}
    told = {rule: verdict.reason or verdict.summary for rule, verdict in verdicts.items()}
    assert {rule: verdict.outcome for rule, verdict in verdicts.items()} == expected, told
