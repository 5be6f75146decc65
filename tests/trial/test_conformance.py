"""The same program, sound and with the same faults, in every form: the verdicts must be the same too."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forms import EXPECTED, FORMS, TOGETHER, program, rules_of
from probe_programs import Asked, examined

from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import load_trial
from mlcheck.trial.trial import Trial

Load = Callable[[str, str], Trial]
pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own


@pytest.fixture
def load(driven: Callable[[Trial], Trial]) -> Load:
    def loaded(entry: str, text: str) -> Trial:
        Path("train.py").write_text(text, encoding="utf-8")
        return driven(load_trial(entry))

    return loaded


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


# Each drives the program in another way: a few steps, an epoch and an evaluation, the first batch.
DRIVING = ("missing-zero-grad", "validation-worsens", "batch-not-reviewed")


def bits(value: Any) -> Any:
    """A state as plain values: tensors as bytes, whatever holds them as dicts and lists."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.detach().cpu().contiguous().reshape(-1).numpy().tobytes()
    if isinstance(value, dict):
        return {str(key): bits(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(inner) for inner in value]
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(type(value))


def state(trial: Trial) -> dict[str, Any]:
    """Weights, buffers, gradients, modes, optimizers, schedules and the random numbers to come, read independently."""
    modules = {f"{name}.{path}": one for name, model in trial.models.items() for path, one in model.named_modules()}
    gradients = {name: p.grad for path, m in trial.models.items() for name, p in m.named_parameters(prefix=path)}
    return {
        "weights": bits({name: dict(model.state_dict()) for name, model in trial.models.items()}),
        "gradients": bits(gradients),
        "modes": {name: module.training for name, module in modules.items()},
        "hooks": {name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in modules.items()},
        "optimizers": bits({name: one.state_dict() for name, one in trial.optimizers.items()}),
        "schedulers": bits({name: one.state_dict() for name, one in trial.schedulers.items()}),
        "random": bits(torch.get_rng_state()),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_the_probes_leave_every_form_as_it_was(load: Load, name: str) -> None:
    form = FORMS[name]
    if form.needs and not importlib.util.find_spec(form.needs):
        pytest.skip(f"{form.needs} is not installed")
    trial = load(form.entry, program(form))
    before = state(trial)
    results = examined(trial, *DRIVING)
    assert results["batch-not-reviewed"].outcome is Outcome.PENDING
    after = state(trial)
    assert [part for part in before if before[part] != after[part]] == []
