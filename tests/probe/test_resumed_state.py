"""A run that is resumed goes on as the run that was not interrupted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RESUME = "resume-loses-state"


class Counter:
    """A callback with state of its own, saved or not."""

    def __init__(self) -> None:
        self.value = 0.0

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.value = state["value"]


def stateful(*, saved: bool, used: bool = True) -> Trial:
    """A trial whose loss is scaled by a number that grows with every step."""
    model, counter = mlp(), Counter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        counter.value += 1.0
        optimizer.zero_grad()
        loss = cross_entropy(model, batch) * (1 + counter.value * used)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step=step)
    trial.objects = (counter, step)
    trial.saved = {"model": model, "optimizer": optimizer, **({"counter": counter} if saved else {})}
    return trial


def test_state_that_is_saved_resumes() -> None:
    verdict = ask(RESUME, stateful(saved=True))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "bit for bit" in verdict.summary


class StillBody(nn.Sequential):
    """A body that stays in evaluation mode, as transfer learning has it."""

    def train(self, mode: bool = True) -> StillBody:
        super().train(mode)
        self[0].eval()
        return self


def test_a_mode_that_train_sets_is_not_lost() -> None:
    model = StillBody(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), nn.Linear(8, 5))
    trial = trial_of(model, classes(8), cross_entropy)
    optimizer = next(iter(trial.optimizers.values()))
    entered: list[Any] = []

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        if not entered:  # a framework sets the mode where training begins
            entered.append(model.train())
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial.train_step = step
    trial.evaluate_step = None
    trial.saved = {"model": model, "optimizer": optimizer}
    assert ask(RESUME, trial).outcome is Outcome.PASS


def test_state_that_is_not_saved_is_named() -> None:
    verdict = ask(RESUME, stateful(saved=False))
    assert verdict.outcome is Outcome.FAIL
    assert "lacks state of `Counter`" in verdict.findings[0].message
    assert "`value` is 0.0" in verdict.findings[0].message
    assert "loss of step 4" in verdict.summary


def test_state_that_only_a_report_shows_is_a_warning() -> None:
    trial = stateful(saved=False, used=False)
    inner, counter = trial.train_step, trial.objects[0]
    trial.train_step = lambda batch, index: {**inner(batch, index), "seen": counter.value}  # type: ignore[attr-defined]
    verdict = ask(RESUME, trial)
    assert verdict.outcome is Outcome.WARN
    assert "lacks state of `Counter`" in verdict.findings[0].message


def test_state_that_changes_nothing_may_be_lost() -> None:
    assert ask(RESUME, stateful(saved=False, used=False)).outcome is Outcome.PASS


class Carrying(nn.Module):
    """What the batch before left is mixed into each batch; `kept` is how much of it stays for the batch after."""

    def __init__(self, kept: float) -> None:
        super().__init__()
        self.body, self.head, self.kept = nn.Linear(8, 16), nn.Linear(16, 5), kept

    def forward(self, x: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        new = self.body(x)
        return self.head(torch.tanh(new + left)), (self.kept * left + (1 - self.kept) * new).detach()


class Carried:
    """Holds what goes from batch to batch, and how many there were."""

    def __init__(self) -> None:
        self.left, self.count = torch.zeros(16), 0


def carrying(kept: float, *, every: int = 0, evaluated: bool = False) -> Trial:
    """`every` so many steps the loss is another one; an evaluation begins with nothing, or with what is left."""
    model, carried = Carrying(kept), Carried()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        output, carried.left = model(batch[0], carried.left)
        carried.count += bool(every)
        odd = every and carried.count % every == 0
        loss = nn.functional.cross_entropy(output, batch[1]) * (2 if odd else 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    def evaluate(batch: Any) -> dict[str, float]:
        left = carried.left if evaluated else torch.zeros(16)
        return {"val": nn.functional.cross_entropy(model(batch[0], left)[0], batch[1]).item()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step=step)
    trial.evaluate_step, trial.validation_batches = evaluate, lambda: iter(classes(8))
    trial.objects, trial.saved = (carried, step), {"model": model, "optimizer": optimizer}
    return trial


def test_state_that_the_next_steps_bring_back_is_told_without_an_alarm() -> None:
    says(ask(RESUME, carrying(kept=0.2)), Outcome.PASS, "`Carried`", "5 steps later it has faded")


@pytest.mark.parametrize(("kept", "every", "evaluated"), [(0.95, 0, False), (0.2, 4, False), (0.2, 0, True)])
def test_state_that_lasts_or_that_an_evaluation_reads_is_a_failure(kept: float, every: int, evaluated: bool) -> None:
    verdict = ask(RESUME, carrying(kept, every=every, evaluated=evaluated))
    assert verdict.outcome is Outcome.FAIL, verdict
    assert "until it is put back" in verdict.findings[0].message


def test_gradients_that_wait_for_more_batches_are_no_lost_state() -> None:
    trial = stateful(saved=True)
    model, optimizer = trial.models["model"], trial.optimizers["optimizer"]

    def accumulating(batch: Any, index: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch) / 4
        loss.backward()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    trial.train_step = accumulating
    verdict = ask(RESUME, trial)
    assert verdict.outcome is Outcome.PASS, verdict


def test_metrics_that_are_lists_of_tensors_are_compared_item_by_item() -> None:
    trial = stateful(saved=True)
    inner = trial.train_step
    trial.train_step = lambda batch, index: {**inner(batch, index), "seen": [batch[0], {"at": batch[1]}]}
    assert ask(RESUME, trial).outcome is Outcome.PASS


def test_an_optimizer_left_out_of_the_checkpoint() -> None:
    trial = stateful(saved=True)
    assert trial.saved is not None
    trial.saved = {name: part for name, part in trial.saved.items() if name != "optimizer"}
    assert ask(RESUME, trial).outcome is not Outcome.PASS


def test_a_run_that_never_repeats_itself_cannot_be_compared() -> None:
    trial = stateful(saved=True)
    inner, noise = trial.train_step, iter(range(1, 1000))

    def step(batch: Any, index: int) -> Any:
        return inner((batch[0] * (1 + next(noise) * 1e-3), batch[1]), index)

    trial.train_step = step
    verdict = ask(RESUME, trial)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "two runs from the same state differ" in verdict.reason


def test_who_writes_checkpoints_alone_is_left_alone() -> None:
    assert ask(RESUME, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP
