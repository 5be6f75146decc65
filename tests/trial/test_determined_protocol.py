"""What a Determined trial does past its context, and the order of a scaler's calls in any program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from forms import DETERMINED, FUNCTION, program
from probe_programs import ask

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import load_trial
from mlcheck.trial.trial import EntryOptions

Write = Callable[[str, str], Path]
Judge = Callable[..., Verdict]

WRAPPED = "self.optimizer = context.wrap_optimizer(torch.optim.Adam(trained(self.net), lr=RATE))"
STEP = "self.context.step_optimizer(self.optimizer)"
SCHEDULED = f"""{WRAPPED}
        from determined.pytorch import LRScheduler
        plain = torch.optim.lr_scheduler.StepLR(self.optimizer, 100)
        self.schedule = context.wrap_lr_scheduler(plain, LRScheduler.StepMode.STEP_EVERY_BATCH)"""
VALIDATED = 'return {"loss": F.cross_entropy(self.net(batch[0]), batch[1])}'
CHANGING = f"""self.seen = getattr(self, "seen", 0) + 1
        {VALIDATED.replace('"loss"', '"loss" if self.seen % 2 else "error"')}"""


@pytest.fixture
def judge(write: Write) -> Judge:
    """The verdict on the sound trial with some of its text replaced."""

    def judged(rule: str, *changes: tuple[str, str]) -> Verdict:
        text = program(DETERMINED)
        for right, wrong in changes:
            assert right in text
            text = text.replace(right, wrong)
        write("train.py", text)
        return ask(rule, load_trial("train.py:NetTrial"))

    return judged


def test_a_trial_that_keeps_the_contract(judge: Judge) -> None:
    verdict = judge("determined-contract")
    assert verdict.outcome is Outcome.PASS
    assert "2 validation batches with the same metrics" in verdict.summary


@pytest.mark.parametrize(
    ("changes", "outcome", "told"),
    [
        (((STEP, "self.optimizer.step(); self.optimizer.zero_grad()"),), Outcome.WARN, "`optimizer` is stepped past"),
        ((("self.context.backward(loss)", "loss.backward()"),), Outcome.WARN, "backward is called past the context"),
        (
            ((WRAPPED, WRAPPED.replace("context.wrap_optimizer", "")), (STEP, "self.optimizer.step()")),
            Outcome.FAIL,
            "(Adam) that the context has not wrapped",
        ),
        (((VALIDATED, CHANGING),), Outcome.FAIL, "must return the same metrics for every batch"),
    ],
)
def test_what_goes_past_the_context(
    judge: Judge, changes: tuple[tuple[str, str], ...], outcome: Outcome, told: str
) -> None:
    verdict = judge("determined-contract", *changes)
    assert verdict.outcome is outcome, verdict.reason or verdict.summary
    assert told in verdict.findings[0].message
    assert verdict.findings[0].location.path == "train.py" or "metrics" in told


HYBRID = """
class Hybrid(torch.optim.Optimizer):
    def __init__(self, parameters):
        parameters = list(parameters)
        super().__init__(parameters, {"lr": 0.05})
        self.inner = torch.optim.Adam(parameters, lr=0.05)

    def step(self, closure=None):
        return self.inner.step(closure)


class NetTrial"""


def test_an_optimizer_inside_of_a_wrapped_one_is_no_stranger(judge: Judge) -> None:
    wrapped = "self.optimizer = context.wrap_optimizer(Hybrid(trained(self.net)))"
    verdict = judge("determined-contract", ("class NetTrial", HYBRID), (WRAPPED, wrapped))
    assert verdict.outcome is Outcome.PASS, verdict.findings


CLOSURE = """def closure():
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            self.context.backward(loss)
            return loss

        loss = self.optimizer.step(closure).detach()"""


@pytest.mark.parametrize(("optimizer", "outcome"), [("LBFGS", Outcome.PASS), ("Adam", Outcome.WARN)])
def test_only_a_step_that_needs_its_closure_may_go_past_the_context(
    judge: Judge, optimizer: str, outcome: Outcome
) -> None:
    """`step_optimizer` has no place for the closure that L-BFGS evaluates several times; others do without."""
    begins = (
        "loss = F.cross_entropy(self.net(batch[0]), batch[1])\n        self.context.backward(loss)\n        " + STEP
    )
    verdict = judge("determined-contract", (begins, CLOSURE), ("torch.optim.Adam", f"torch.optim.{optimizer}"))
    assert verdict.outcome is outcome, verdict.summary


def test_a_model_that_is_not_wrapped(judge: Judge) -> None:
    verdict = judge("parameter-outside-wrapped-model", ("context.wrap_model(Net())", "Net()"))
    assert verdict.outcome is Outcome.FAIL
    assert "`NetTrial.net.body.weight`" in verdict.summary


def test_an_attribute_that_the_stand_in_lacks_is_named(judge: Judge) -> None:
    with pytest.raises(AttributeError, match=r"no `PyTorchTrialContext.wrap_optimiser`: did you mean `wrap_optimizer`"):
        judge("determined-contract", ("context.wrap_optimizer", "context.wrap_optimiser"))


SEARCHED = "searcher: {name: single, metric: METRIC, max_length: {batches: 100}}"
REDUCED = f"{WRAPPED}\n        context.wrap_reducer(lambda values: 0.0, name='auc')"


@pytest.mark.parametrize(
    ("metric", "changes", "outcome", "told"),
    [
        ("loss", (), Outcome.PASS, "evaluation returns `loss`"),
        ("loss_", (), Outcome.FAIL, "goes by `loss_`, and evaluation returns `loss`; did you mean `loss`?"),
        ("auc", ((WRAPPED, REDUCED),), Outcome.PASS, "evaluation returns `auc`"),
        ("area", ((WRAPPED, REDUCED),), Outcome.INCONCLUSIVE, "make no `area` of one batch"),
    ],
)
def test_the_metric_that_the_search_goes_by(
    write: Write, metric: str, changes: tuple[tuple[str, str], ...], outcome: Outcome, told: str
) -> None:
    text = program(DETERMINED)
    for right, wrong in changes:
        text = text.replace(right, wrong)
    write("train.py", text)
    config = write("experiment.yaml", SEARCHED.replace("METRIC", metric))
    verdict = ask("searcher-metric-missing", load_trial("train.py:NetTrial", EntryOptions(config=config)))
    assert verdict.outcome is outcome, verdict
    assert told in verdict.summary + verdict.reason


def test_a_scheduler_stepped_by_hand_and_by_the_framework(judge: Judge) -> None:
    by_hand = (STEP, f"{STEP}\n        self.schedule.step()")
    verdict = judge("scheduler-stepped-twice", (WRAPPED, SCHEDULED), by_hand)
    assert verdict.outcome is Outcome.FAIL
    assert "`schedule` is stepped here and by the framework" in verdict.findings[0].message
    assert verdict.findings[0].location.line
    manual = SCHEDULED.replace("STEP_EVERY_BATCH", "MANUAL_STEP")
    assert judge("scheduler-stepped-twice", (WRAPPED, SCHEDULED)).outcome is Outcome.PASS
    assert judge("scheduler-stepped-twice", (WRAPPED, manual), by_hand).outcome is Outcome.PASS


def test_the_contract_is_asked_of_trials_with_a_context_only(write: Write) -> None:
    write("train.py", program(FUNCTION))
    for rule in ("determined-contract", "scheduler-stepped-twice", "clip-before-unscale"):
        assert ask(rule, load_trial("train.py:build")).outcome is Outcome.SKIP, rule


SCALER = "scaler = torch.amp.GradScaler()\n    optimizer = torch.optim.Adam"
AUTOCAST = (
    "loss = F.cross_entropy(net(batch[0]), batch[1])\n",
    "with torch.autocast('cuda', enabled=ON):\n            loss = F.cross_entropy(net(batch[0]), batch[1])\n",
)
CLIPS = {
    "torch's function": "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    "by a name of one's own": "clip(net.parameters(), 1.0)",
    "by value": "nn.utils.clip_grad_value_(net.parameters(), 0.5)",
}


@pytest.mark.filterwarnings("ignore")  # of CUDA that is not there
@pytest.mark.parametrize("how", CLIPS)
@pytest.mark.parametrize("unscale", ["", "scaler.unscale_(optimizer)"])
def test_clipping_before_unscaling(write: Write, how: str, unscale: str) -> None:
    text = program(FUNCTION).replace("optimizer = torch.optim.Adam", SCALER).replace(*AUTOCAST)
    text = text.replace("loss.backward()", "scaler.scale(loss).backward()")
    stepping = f"{unscale or 'pass'}\n        {CLIPS[how]}\n        scaler.step(optimizer)\n        scaler.update()"
    text = "from torch.nn.utils import clip_grad_norm_ as clip\nON = True\n" + text.replace(
        "optimizer.step()", stepping
    )
    write("train.py", text)
    verdict = ask("clip-before-unscale", load_trial("train.py:build"))
    assert verdict.outcome is (Outcome.PASS if unscale else Outcome.FAIL), verdict.reason
    if not unscale:
        assert text.splitlines()[verdict.findings[0].location.line - 1].strip() == CLIPS[how]
    write("train.py", text.replace("ON = True", "ON = False"))
    assert ask("clip-before-unscale", load_trial("train.py:build")).outcome is Outcome.SKIP


@pytest.mark.filterwarnings("ignore")
def test_a_trial_that_clips_in_its_step(judge: Judge) -> None:
    scaled = (
        (
            "self.context = context\n",
            "self.context = context\n        self.scaler = context.wrap_scaler(torch.amp.GradScaler())\n",
        ),
        ("        loss = F", "        with torch.autocast('cuda'):\n            loss = F"),
        ("backward(loss)", "backward(self.scaler.scale(loss))"),
    )
    clip = "clip_grads=lambda ps: nn.utils.clip_grad_norm_(ps, 1.0), scaler=self.scaler"
    step = f"self.context.step_optimizer(self.optimizer, {clip})\n        self.scaler.update()"
    assert judge("clip-before-unscale", *scaled, (STEP, step)).outcome is Outcome.FAIL
    unscaled = f"self.scaler.unscale_(self.optimizer)\n        {step}"
    assert judge("clip-before-unscale", *scaled, (STEP, unscaled)).outcome is Outcome.PASS
