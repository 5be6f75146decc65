"""A copy that averages the model's weights keeps to its decay and to the model."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model import averaged_copy
from mlcheck.trial.trial import Trial

COPY = "averaged-copy-wrong"


def normed() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))


class Holder:
    def __init__(self, ema: Any) -> None:
        self.ema = ema


Update = Callable[[nn.Module, Any], None]


@torch.no_grad()
def average(model: nn.Module, ema: nn.Module, decay: float = 0.9, buffers: bool = True) -> None:
    for mine, theirs in zip(ema.parameters(), model.parameters(), strict=True):
        mine.lerp_(theirs, 1 - decay)
    for held, fresh in zip(ema.buffers(), model.buffers(), strict=True):
        if buffers:
            held.copy_(fresh)


def averaged(
    update: Update, model: nn.Module | None = None, ema: Any = None, evaluate: bool = True, loss: Any = cross_entropy
) -> Trial:
    model = model or normed()
    ema = ema if ema is not None else deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        model.train()
        optimizer.zero_grad()
        error = loss(model, batch)
        error.backward()
        optimizer.step()
        update(model, ema)
        return {"loss": error.detach()}

    @torch.no_grad()
    def evaluated(batch: Any) -> dict[str, float]:
        used = ema.eval() if evaluate and isinstance(ema, nn.Module) else model.eval()
        return {"loss": float(cross_entropy(used, batch))}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step=step, evaluate=evaluated)
    trial.objects = (Holder(ema),)
    return trial


def fault(trial: Trial) -> Verdict:
    verdict = ask(COPY, trial)
    assert verdict.outcome is Outcome.FAIL, verdict
    return verdict


def test_an_average_of_weights_and_statistics_passes_with_its_decay() -> None:
    verdict = ask(COPY, averaged(average))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "`Holder.ema` keeps 0.9 of itself" in verdict.summary


def test_a_decay_that_ramps_up_passes() -> None:
    steps = count(1)
    verdict = ask(COPY, averaged(lambda model, ema: average(model, ema, (1 + (n := next(steps))) / (10 + n))))
    assert verdict.outcome is Outcome.PASS, verdict


def test_statistics_that_stay_behind_are_told_only_where_they_are_read() -> None:
    behind = averaged(lambda model, ema: average(model, ema, buffers=False))
    assert ask(COPY, behind).outcome is Outcome.WARN  # update_bn may come before the program's own evaluation
    behind.saved = {}
    verdict = fault(behind)
    assert "running statistics of `Holder.ema` never move (`1.running_mean`)" in verdict.findings[0].message
    unread = averaged(lambda model, ema: average(model, ema, buffers=False), evaluate=False)
    assert ask(COPY, unread).outcome is Outcome.PASS


def test_weights_left_out_of_the_average() -> None:
    @torch.no_grad()
    def some(model: nn.Module, ema: nn.Module) -> None:
        average(model, ema)
        for mine, kept in zip(ema[3].parameters(), before, strict=True):
            mine.copy_(kept)

    model = normed()
    before = [weight.detach().clone() for weight in model[3].parameters()]
    verdict = fault(averaged(some, model))
    assert "2 of 6 weights of `Holder.ema` never move" in verdict.findings[0].message


def test_a_weight_that_goes_by_less_than_an_average_shows_is_none_of_those() -> None:
    """As a bias before batch norm does, whose gradient is nothing but rounding."""

    @torch.no_grad()
    def nudged(model: nn.Module, ema: nn.Module) -> None:
        model[0].bias.mul_(1 + 2**-23)
        average(model, ema, 0.99)

    model = normed()
    model[0].bias.requires_grad_(False)
    verdict = ask(COPY, averaged(nudged, model))
    assert verdict.outcome is Outcome.PASS, verdict


class Pair:
    def __init__(self, teacher: nn.Module) -> None:
        self.teacher = teacher


def taught(update: Update, evaluate: bool = True) -> Trial:
    """A teacher that no name tells from one that is to stay."""
    model = mlp()
    trial = averaged(update, model, ema=(teacher := deepcopy(model)), evaluate=evaluate)
    trial.objects, trial.loaders = (Pair(teacher),), {"training": classes(8), "validation": None}
    return trial


def test_a_copy_that_is_evaluated_and_never_moves() -> None:
    def left(model: nn.Module, ema: nn.Module) -> None:
        """Nobody calls the update."""

    verdict = ask(COPY, taught(left))
    assert verdict.outcome is Outcome.WARN, verdict
    assert "`Pair.teacher` is used in evaluation and never changes" in verdict.summary
    assert "bit for bit" in verdict.summary
    assert ask(COPY, taught(left, evaluate=False)).outcome is Outcome.INCONCLUSIVE
    assert ask(COPY, taught(average)).outcome is Outcome.PASS


def test_a_copy_that_is_set_now_and_then_is_no_copy_that_never_moves() -> None:
    steps = count(1)

    def seldom(model: nn.Module, ema: nn.Module) -> None:
        if next(steps) % 20 == 0:
            average(model, ema, 0.0)

    assert ask(COPY, taught(seldom)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("sets", "outcome"),
    [
        (lambda step: step % 8 == 0, Outcome.WARN),
        (lambda step: step <= 8, Outcome.INCONCLUSIVE),
        (lambda step: step <= 3, Outcome.PASS),
        (lambda step: step == 8, Outcome.PASS),
    ],
)
def test_a_copy_that_is_set_again_and_again(sets: Callable[[int], bool], outcome: Outcome) -> None:
    steps = count(1)

    def sometimes(model: nn.Module, ema: nn.Module) -> None:
        average(model, ema)
        if sets(next(steps)):
            ema.load_state_dict(model.state_dict())

    verdict = ask(COPY, averaged(sometimes))
    assert verdict.outcome is outcome, verdict
    assert ("2 times in" in verdict.summary or "3 times in" in verdict.summary) is (outcome is Outcome.WARN)


def test_decay_and_its_complement_exchanged() -> None:
    assert "averages nothing" in fault(averaged(lambda model, ema: average(model, ema, 0.001))).summary


def test_an_average_that_is_written_back_to_the_model() -> None:
    @torch.no_grad()
    def swapped(model: nn.Module, ema: nn.Module, kept: float = 0.995) -> None:
        for mine, theirs in zip(model.parameters(), ema.parameters(), strict=True):
            mine.copy_(kept * theirs + (1 - kept) * mine)
        average(model, ema)

    told = fault(averaged(swapped)).findings[0].message
    assert "after each optimizer step the model is drawn back to `Holder.ema`: 0.005 of the step is left" in told
    for elastic in (0.1, 0.4):
        gentle = averaged(lambda model, ema, kept=elastic: swapped(model, ema, kept), mlp())
        assert ask(COPY, gentle).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("taught", "elastic", "told"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_model_that_follows_its_own_target(taught: bool, elastic: bool, told: bool) -> None:
    """A model may be held near an anchor that nobody asks, or two may draw on each other."""
    model, target = mlp(), mlp()
    target.load_state_dict(model.state_dict())

    def loss(model: nn.Module, batch: Any) -> Tensor:
        if not taught:
            return cross_entropy(model, batch)
        with torch.no_grad():
            advice = target(batch[0])
        return cross_entropy(model, batch) + (model(batch[0]) - advice).square().mean()

    @torch.no_grad()
    def follow(*_: Any) -> None:
        for mine, theirs in zip(target.parameters(), model.parameters(), strict=True):
            before = mine.clone()
            mine.lerp_(theirs, 0.05 * elastic)
            theirs.lerp_(before, 0.05)

    trial = averaged(follow, model, target, loss=loss)
    verdict = ask(COPY, trial)
    assert ("the two are exchanged" in verdict.summary) is told, verdict


def test_an_average_loaded_into_the_model_while_its_decay_warms_up() -> None:
    def loaded(back: bool) -> Trial:
        steps = count(1)

        def update(model: nn.Module, ema: nn.Module) -> None:
            number = next(steps)
            average(model, ema, min(0.999, (1 + number) / (10 + number)))
            if back:
                model.load_state_dict(ema.state_dict())

        return averaged(update)

    told = fault(loaded(back=True)).findings[0].message
    assert "after each optimizer step the model is drawn back to `Holder.ema`" in told
    assert ask(COPY, loaded(back=False)).outcome is Outcome.PASS


def test_a_copy_set_to_the_model_after_each_step_does_not_draw_it_back() -> None:
    verdict = ask(COPY, averaged(lambda model, target: target.load_state_dict(model.state_dict()), mlp()))
    assert "drawn back" not in verdict.summary


def test_a_model_set_to_its_slow_copy_now_and_then_passes() -> None:
    steps = count(1)

    @torch.no_grad()
    def lookahead(model: nn.Module, slow: nn.Module) -> None:
        if next(steps) % 3:
            return
        for mine, kept in zip(model.parameters(), slow.parameters(), strict=True):
            kept.lerp_(mine, 0.5)
            mine.copy_(kept)

    assert ask(COPY, averaged(lookahead, mlp())).outcome is Outcome.PASS


def test_a_copy_that_runs_away() -> None:
    assert "moves away from the model" in fault(averaged(lambda model, ema: average(model, ema, 1.1))).summary


def test_an_average_whose_parts_do_not_add_up_to_one() -> None:
    def parts(of_itself: float, of_the_model: float) -> Update:
        @torch.no_grad()
        def update(model: nn.Module, ema: nn.Module) -> None:
            for mine, theirs in zip(ema.parameters(), model.parameters(), strict=True):
                mine.mul_(of_itself).add_(theirs, alpha=of_the_model)

        return update

    told = fault(averaged(parts(0.95, 1.0), mlp())).summary
    assert "what it keeps of itself at a step and takes of the model add up to 1.95, not to 1" in told
    assert "add up to 0.981" in fault(averaged(parts(0.98, 0.001), mlp())).summary
    assert ask(COPY, averaged(parts(0.98, 0.02), mlp())).outcome is Outcome.PASS
    assert ask(COPY, averaged(parts(1.0, 1.0), mlp(), evaluate=False)).outcome is Outcome.PASS


def test_a_sum_of_weights_that_evaluation_divides_passes() -> None:
    steps, model = count(1), mlp()
    total, used = deepcopy(model), deepcopy(model)

    @torch.no_grad()
    def update(model: nn.Module, _: nn.Module) -> None:
        number = next(steps) + 1
        for added, mean, theirs in zip(total.parameters(), used.parameters(), model.parameters(), strict=True):
            mean.copy_(added.add_(theirs) / number)

    trial = averaged(update, model, used)
    trial.objects = (Holder(used), Holder(total))
    assert ask(COPY, trial).outcome is Outcome.PASS


def test_a_copy_that_is_the_model() -> None:
    model = mlp()
    shared = mlp()
    for mine, theirs in zip(shared.parameters(), model.parameters(), strict=True):
        mine.data = theirs.data
    assert "lie in the model's own memory" in fault(averaged(lambda *_: None, model, shared)).summary


def test_the_state_dict_of_the_model_is_a_copy_only_where_it_is_named_one() -> None:
    model = mlp()
    trial = averaged(lambda *_: None, model, model.state_dict())
    assert "`Holder.ema` lie in the model's own memory" in fault(trial).summary
    state, target = model.state_dict(), deepcopy(model)
    trial = averaged(lambda live, _: average(live, target), model)
    trial.objects = ({"policy_state": state, "target": target, "target_state": target.state_dict()},)
    verdict = ask(COPY, trial)
    assert verdict.outcome is Outcome.PASS, verdict


def test_an_average_kept_in_a_dict_that_is_made_anew() -> None:
    model = mlp()
    shadow = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    def update(live: nn.Module, kept: dict[str, Tensor]) -> None:
        for name, weight in live.named_parameters():
            kept[name] = 0.5 * kept[name] + 0.5 * weight.detach()

    verdict = ask(COPY, averaged(update, model, shadow))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "keeps 0.5 of itself" in verdict.summary


def test_a_teacher_that_stays_is_not_judged_and_an_average_that_stays_is() -> None:
    trial = averaged(lambda *_: None)
    trial.objects = (type("Distillation", (), {})(),)
    vars(trial.objects[0])["teacher"] = deepcopy(trial.models["model"])
    assert ask(COPY, trial).outcome is Outcome.INCONCLUSIVE
    still = ask(COPY, averaged(lambda *_: None))
    assert still.outcome is Outcome.WARN
    assert "`Holder.ema` is used in evaluation and did not change" in still.summary


def test_a_network_of_the_same_form_that_knows_something_else_is_no_copy() -> None:
    """The one that generated the data, or the model of the chapter before."""
    trial = averaged(lambda *_: None, evaluate=False, ema=normed())
    says(ask(COPY, trial), Outcome.SKIP, "other weights from the start")
    alike = averaged(lambda *_: None, evaluate=False)
    assert ask(COPY, alike).outcome is not Outcome.SKIP


def test_two_networks_that_are_both_trained_are_no_copies() -> None:
    one, other = mlp(), mlp()
    optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)
    trial = trial_of(one, classes(8), cross_entropy, optimizer)
    trial.objects = (Holder(other),)
    assert ask(COPY, trial).outcome is Outcome.SKIP


KEPT = """
class Loop(PyTorchTrial):
    def __init__(self, model):
        self.helper = Helper(self)
        self.model, self.ema = model, copy.deepcopy(model)

    def train_batch(self, batch):
        self.follow()

    def follow(self):
        average(self.model, self.ema)

    def evaluate_batch(self, batch):
        return loss(self.model, batch)
"""
HELPER = "class Helper:\n    def apply(self):\n        self.loop.model.load_state_dict(self.loop.ema.state_dict())\n"
SWAPPED = "class Swap(Callback):\n    def on_validation_start(self, loop):\n        swap(loop.model, loop.ema)\n"
BY_NAME = "def held(loop, name):\n    return getattr(loop, name)\n"
AFTER = "def export(loop):\n    torch.save(loop.ema.state_dict(), 'ema.pt')\n"


@pytest.mark.parametrize(
    ("text", "saved", "metric", "words"),
    [
        (KEPT, False, "loss", "nothing reads it: no checkpoint holds it"),
        (KEPT + HELPER, False, "loss", "nothing reads it: no checkpoint holds it"),
        (KEPT, True, "ema_loss", "nothing reads it: `ema_loss` is the model's own"),
        (KEPT, True, "loss", ""),  # it may be what is deployed
        (KEPT + "    def validate(self):\n        self.helper.apply()\n" + HELPER, False, "loss", ""),
        (KEPT + SWAPPED, False, "ema_loss", ""),
        (KEPT + BY_NAME, False, "loss", ""),
        (KEPT + AFTER, False, "loss", ""),
        (KEPT.replace("loss(self.model", "loss(self.ema"), False, "loss", ""),
    ],
)
def test_an_average_that_nothing_reads(
    text: str, saved: bool, metric: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = averaged(average, evaluate=False)
    monkeypatch.setattr(averaged_copy, "loaded_text", lambda _: text)
    parts: dict[str, Any] = {"model": trial.models["model"]}
    trial.saved = {**parts, "ema": vars(trial.objects[0])["ema"]} if saved else parts
    trial.evaluate_step = lambda batch: {metric: float(cross_entropy(trial.models["model"], batch).detach())}
    says(ask(COPY, trial), Outcome.WARN if words else Outcome.PASS, *filter(None, [words]))


def in_place(mine: Tensor, theirs: Tensor) -> None:
    mine.mul_(0.9).add_(theirs, alpha=0.1)


def by_data(mine: Tensor, theirs: Tensor) -> None:
    mine.data = 0.9 * mine.data + 0.1 * theirs.data


def interpolated(mine: Tensor, theirs: Tensor) -> None:
    mine.lerp_(theirs, 0.1)


def consistent(update: Callable[[Tensor, Tensor], None], copied: bool) -> Trial:
    """A teacher by another name than that of an average: the student itself, where nothing is copied."""
    student = mlp()
    teacher = deepcopy(student) if copied else student
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        with torch.no_grad():
            advice = teacher(batch[0])
        optimizer.zero_grad()
        loss = cross_entropy(student, batch) + (student(batch[0]) - advice).square().mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mine, theirs in zip(teacher.parameters(), student.parameters(), strict=True):
                update(mine, theirs)
        return {"loss": loss.detach()}

    trial = trial_of(student, classes(8), cross_entropy, optimizer, step=step)
    trial.objects = (SimpleNamespace(student=student, teacher=teacher),)
    return trial


@pytest.mark.parametrize("update", [in_place, by_data, interpolated])
def test_a_teacher_that_is_its_student(update: Callable[[Tensor, Tensor], None]) -> None:
    assert "a step averages 6 weights of it with themselves" in fault(consistent(update, copied=False)).summary
    assert ask(COPY, consistent(update, copied=True)).outcome is Outcome.PASS


def test_one_model_by_two_names_that_is_averaged_with_nothing() -> None:
    def shrunk(mine: Tensor, _: Tensor) -> None:
        mine.mul_(0.999).add_(torch.zeros_like(mine))

    assert ask(COPY, consistent(shrunk, copied=False)).outcome is Outcome.SKIP
