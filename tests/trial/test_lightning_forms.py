"""Lightning itself: what `configure_optimizers` may return, modules made by a function, and what their hooks do."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forms import AUTOMATIC, MANUAL, program
from probe_programs import Asked

from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import load_trial
from mlcheck.trial.trial import Trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # theirs
    pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed"),
]
Load = Callable[..., Trial]
CONFIGURED = "return torch.optim.Adam(trained(self.net), lr=RATE)"
STEP = "return F.cross_entropy(self.net(batch[0]), batch[1])"
SCHEDULED = "{'optimizer': one, 'lr_scheduler': {'scheduler': plan, 'interval': 'step', 'monitor': 'val_loss'}}"
# What the method returns, how many optimizers that is, and how many schedulers.
FORMS = {
    "a list": ("[one]", 1, 0),
    "two lists": ("[one], [plan]", 1, 1),
    "a dict": (SCHEDULED, 1, 1),
    "a plateau": (
        SCHEDULED.replace("plan", "torch.optim.lr_scheduler.ReduceLROnPlateau(one)").replace("'step'", "'epoch'"),
        1,
        1,
    ),
}
PREFIX = "one = torch.optim.Adam(trained(self.net), lr=RATE)\n        plan = torch.optim.lr_scheduler.StepLR(one, 50)\n"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a second program is written to the scratch of the first
    trials = []

    def loaded(text: str, *changes: tuple[str, str], entry: str = "train.py:Lit") -> Trial:
        for right, wrong in changes:
            assert right in text, right
            text = text.replace(right, wrong)
        Path("train.py").write_text(text, encoding="utf-8")
        trials.append(load_trial(entry))
        return trials[-1]

    yield loaded
    for trial in reversed(trials):  # what was patched last is undone first
        assert trial.progress
        trial.progress.close()


def says(trial: Trial, **expected: Outcome) -> None:
    asked = Asked(trial)
    verdicts = {name: asked.verdict(name.replace("_", "-")) for name in expected}
    told = {name: verdict.reason or verdict.summary for name, verdict in verdicts.items()}
    assert {name: verdict.outcome for name, verdict in verdicts.items()} == expected, told


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_configure_optimizers(load: Load, form: str) -> None:
    returned, optimizers, schedulers = FORMS[form]
    trial = load(program(AUTOMATIC), (CONFIGURED, f"{PREFIX}        return {returned}"))
    assert (len(trial.optimizers), len(trial.schedulers)) == (optimizers, schedulers)
    says(trial, missing_zero_grad=Outcome.PASS, parameter_not_in_optimizer=Outcome.PASS)


TWO = (
    "return [torch.optim.Adam(self.net.head.parameters(), lr=RATE), torch.optim.Adam(trained(self.net.body), lr=RATE)]"
)
IN_TURN = """for optimizer in self.optimizers():
            self.toggle_optimizer(optimizer)
            optimizer.zero_grad()
            self.manual_backward(F.cross_entropy(self.net(batch[0]), batch[1]))
            optimizer.step()
            self.untoggle_optimizer(optimizer)"""


def test_two_optimizers_in_turn(load: Load) -> None:
    text = program(MANUAL).partition("optimizer = self.optimizers()")[0] + IN_TURN
    text += "\n\n    def validation_step" + program(MANUAL).partition("    def validation_step")[2]
    trial = load(text, (CONFIGURED, TWO))
    assert len(trial.optimizers) == 2
    says(trial, missing_zero_grad=Outcome.PASS, parameter_not_in_optimizer=Outcome.FAIL)  # the norm is in neither
    says(
        load(text.replace("            optimizer.zero_grad()\n", ""), (CONFIGURED, TWO)), missing_zero_grad=Outcome.FAIL
    )


def test_a_closure_that_steps_more_than_once(load: Load) -> None:
    trial = load(
        program(AUTOMATIC), ("torch.optim.Adam(trained(self.net), lr=RATE)", "torch.optim.LBFGS(trained(self.net))")
    )
    says(trial, missing_zero_grad=Outcome.PASS)


def test_hooks_are_the_modules_own(load: Load) -> None:
    """Gradients that a hook of the module clears before the step never arrive."""
    hook = "    def on_before_optimizer_step(self, optimizer):\n        optimizer.zero_grad()\n\n"
    trial = load(program(AUTOMATIC), ("    def train_dataloader", f"{hook}    def train_dataloader"))
    says(trial, parameter_never_changes=Outcome.FAIL, zero_grad_before_step=Outcome.FAIL)


def test_a_function_returns_a_module_with_its_loaders(load: Load) -> None:
    without = program(AUTOMATIC).partition("    def train_dataloader")[0]
    build = """
def build():
    return Lit(), DataLoader(training, 16, shuffle=SHUFFLE), DataLoader(held_out, 16)
"""
    trial = load(without + build, ("super().__init__()\n        self.net = Net()", LOGS), entry="train.py:build")
    assert trial.name == "build"
    says(trial, missing_zero_grad=Outcome.PASS, missing_eval_mode=Outcome.PASS, splits_overlap=Outcome.PASS)


# A module that writes to its logger itself: there is one, and it takes anything.
LOGS = """super().__init__()
        self.net = Net()

    def on_train_batch_end(self, *_):
        self.logger.experiment.add_scalar("seen", 1.0, 0)"""
