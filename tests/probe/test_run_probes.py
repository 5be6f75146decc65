"""Probes of a short training: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Asked, ask, classes, cross_entropy, mlp, says, trial_of
from sound_programs import SOUND
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import learning_rate_too_low
from mlcheck.probe.checks.validation_worsens import check as check_validation
from mlcheck.probe.measure.training.rate_trials import RateTrial, RateTrials
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.memorised_metric import MemorisedMetric
from mlcheck.probe.measure.validation.searched import Searched
from mlcheck.trial.trial import Trial

Hook = Callable[[int, Tensor], None]


def loop(
    rate: float = 0.05, before: Hook | None = None, every: int = 1, share: float = 1.0, divide: float = 1.0
) -> Trial:
    """SGD with something done before backward or before the step, and an update every few batches."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch)
        if before:
            before(index, loss)
        (loss * share).backward()
        if index % every == every - 1:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad /= divide
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    learnable = [(x, x[:, :5].argmax(1)) for x, _ in classes(8)]
    return trial_of(model, learnable, cross_entropy, optimizer, step=step)


def test_a_step_that_raises_later() -> None:
    def stop(index: int, _: Tensor) -> None:
        if index == 31:
            raise ValueError("Tried to step 32 times")

    verdict = ask("later-step-breaks", loop(before=stop))
    says(verdict, Outcome.FAIL, "training step 32 raises ValueError: Tried to step 32 times")
    assert verdict.findings[0].location.path.endswith("test_run_probes.py")
    assert "ValueError" in verdict.traceback
    says(ask("later-step-breaks", loop()), Outcome.PASS, "120 training steps")


def normed_on(samples: int, drop_last: bool = False) -> Trial:
    """Batches of eight, far more than a short run comes to."""
    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    trial = trial_of(model, [], cross_entropy)
    loader = DataLoader(TensorDataset(x, x[:, :5].argmax(1)), batch_size=8, shuffle=True, drop_last=drop_last)
    trial.train_batches = lambda: iter(loader)
    trial.validation_batches = None
    trial.loaders = {"training": loader, "validation": None}
    return trial


@pytest.mark.parametrize("samples", [1001, 41])  # the short run does not come to it, or breaks on it
def test_a_last_batch_of_one_under_batch_norm(samples: int) -> None:
    verdict = ask("later-step-breaks", normed_on(samples))
    says(verdict, Outcome.FAIL, "the last batch of an epoch has 1 sample where others have 8", "raises ValueError")
    assert "more than 1 value per channel" in verdict.summary


@pytest.mark.parametrize(("samples", "drop_last"), [(1002, False), (1000, False), (1001, True)])
def test_a_last_batch_that_is_large_enough_or_left_out(samples: int, drop_last: bool) -> None:
    says(ask("later-step-breaks", normed_on(samples, drop_last)), Outcome.PASS, "120 training steps")


@pytest.mark.parametrize(("samples", "outcome"), [(1002, Outcome.PASS), (1001, Outcome.FAIL)])
def test_a_last_batch_with_a_number_for_each_pair(samples: int, outcome: Outcome) -> None:
    """A collate function that ranks samples in pairs gives a smaller square for a smaller batch."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

    def ranked(batch: list[tuple[Tensor]]) -> tuple[Tensor, Tensor]:
        x = torch.stack([row for (row,) in batch])
        return x, (x[:, :1] > x[:, :1].T).float()

    def loss(net: nn.Module, batch: Any) -> Tensor:
        scores = net(batch[0])
        return F.binary_cross_entropy_with_logits(scores - scores.T, batch[1])

    trial = normed_on(samples)
    data = trial.loaders["training"].dataset
    loader = DataLoader([(row,) for row, _ in data], batch_size=8, shuffle=True, collate_fn=ranked)
    ranking = trial_of(model, [], loss)
    ranking.train_batches, ranking.validation_batches = lambda: iter(loader), None
    ranking.loaders = {"training": loader, "validation": None}
    assert ask("later-step-breaks", ranking).outcome is outcome


def test_a_root_of_zero_in_the_gradient() -> None:
    class Distance(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, x: Tensor) -> Tensor:
            out = self.net(x)
            return out + 0.01 * (out - out.detach()).pow(2).sum(1, keepdim=True).sqrt()

    verdict = ask("non-finite-gradient", trial_of(Distance(), classes(8), cross_entropy))
    says(verdict, Outcome.FAIL, "the gradient of `net.0.weight` is not finite at training step 1", "SqrtBackward0")
    assert verdict.findings[0].location.symbol.endswith("forward")
    assert "1e-12" in verdict.findings[0].help


def test_a_loss_that_overflows_forward_names_the_module() -> None:
    class Growing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 1e4).exp()

    model = nn.Sequential(nn.Linear(8, 5), Growing())
    verdict = ask("non-finite-gradient", trial_of(model, classes(8), cross_entropy))
    says(verdict, Outcome.FAIL, "1 (Growing), in forward")


def test_finite_steps_pass() -> None:
    says(ask("non-finite-gradient", loop()), Outcome.PASS, "finite in all of 120 updates")


def test_a_running_sum_of_losses_keeps_every_graph() -> None:
    class Total:
        value: Any = 0.0

    total = Total()

    def add(_: int, loss: Tensor) -> None:
        total.value = total.value + loss

    trial = loop(before=add)
    trial.objects = (total,)
    verdict = ask("graph-kept-across-steps", trial)
    says(verdict, Outcome.FAIL, "graphs of 120 backward passes are still in memory", "`Total.value` holds them")


@pytest.mark.parametrize("keep", [1, 20])
def test_a_few_losses_kept_for_a_while_pass(keep: int) -> None:
    recent: list[Tensor] = []

    def remember(_: int, loss: Tensor) -> None:
        recent.append(loss)
        del recent[:-keep]

    says(ask("graph-kept-across-steps", loop(before=remember)), Outcome.PASS)


def test_losses_kept_as_numbers_pass() -> None:
    numbers: list[Tensor] = []
    says(ask("graph-kept-across-steps", loop(before=lambda _, loss: numbers.append(loss.detach()))), Outcome.PASS)


def clipped(norm: float, optimizer: type[torch.optim.Optimizer] = torch.optim.SGD) -> Trial:
    model = mlp()
    opt = optimizer(model.parameters(), lr=0.01)  # type: ignore[call-arg]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        opt.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), norm)
        opt.step()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, opt, step=step)


def test_clipping_to_nothing() -> None:
    verdict = ask("gradients-clipped-away", clipped(1e-5))
    says(verdict, Outcome.WARN, "in 100 % of 120 updates", "norm 1e-05")


@pytest.mark.parametrize(
    ("norm", "optimizer"), [(0.1, torch.optim.SGD), (100.0, torch.optim.SGD), (1e-4, torch.optim.Adam)]
)
def test_clipping_that_leaves_something_passes(norm: float, optimizer: type[torch.optim.Optimizer]) -> None:
    says(ask("gradients-clipped-away", clipped(norm, optimizer)), Outcome.PASS)


def test_a_gradient_scaler_is_no_clipping() -> None:
    says(ask("gradients-clipped-away", loop(share=65536.0, divide=65536.0)), Outcome.PASS)


def scheduled(schedule: Callable[[torch.optim.Optimizer], Any], rate: float = 0.05) -> Trial:
    trial = loop(rate)
    optimizer = trial.optimizers["optimizer"]
    scheduler, plain = schedule(optimizer), trial.train_step

    def step(batch: Any, index: int) -> Any:
        metrics = plain(batch, index)
        scheduler.step()
        return metrics

    trial.train_step, trial.schedulers = step, {"scheduler": scheduler}
    return trial


def test_an_epoch_schedule_stepped_every_batch() -> None:
    trial = scheduled(lambda opt: torch.optim.lr_scheduler.StepLR(opt, step_size=10, gamma=0.1))
    says(ask("learning-rate-dies", trial), Outcome.WARN, "falls from 0.05 to 5e-07 within 50 steps")


def waiting(mode: Literal["min", "max"], metric: str) -> Trial:
    """A schedule that is stepped with a metric of the training step."""
    trial = loop(0.05)
    optimizer, plain = trial.optimizers["optimizer"], trial.train_step
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, patience=500)

    def step(batch: Any, index: int) -> Any:
        value = float(plain(batch, index)["loss"])
        schedule.step(value)
        return {metric: value, "rows": len(batch[0])}

    trial.train_step, trial.schedulers = step, {"schedule": schedule}
    return trial


def test_a_schedule_that_waits_for_a_loss_to_rise() -> None:
    verdict = ask("learning-rate-dies", waiting("max", "val_loss"))
    says(verdict, Outcome.FAIL, "waits for a larger `val_loss` (mode='max')")
    assert verdict.findings[0].location.path.endswith("test_run_probes.py")
    says(ask("learning-rate-dies", waiting("min", "accuracy")), Outcome.FAIL, "waits for a smaller `accuracy`")


@pytest.mark.parametrize(
    ("mode", "metric"), [("min", "val_loss"), ("max", "accuracy"), ("max", "score"), ("max", "error in accuracy")]
)
def test_schedules_that_wait_for_what_is_better_or_for_what_nobody_knows(
    mode: Literal["min", "max"], metric: str
) -> None:
    assert ask("learning-rate-dies", waiting(mode, metric)).outcome is Outcome.PASS


def test_a_schedule_that_waits_for_what_was_made_of_a_loss() -> None:
    trial = waiting("max", "val_loss")
    step = trial.train_step
    trial.train_step = lambda batch, index: {"val_loss": -1.0 - step(batch, index)["val_loss"]}
    assert ask("learning-rate-dies", trial).outcome is Outcome.PASS


def test_a_schedule_over_the_run_passes() -> None:
    trial = scheduled(lambda opt: torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=1000))
    says(ask("learning-rate-dies", trial), Outcome.PASS, "between")
    warm = scheduled(lambda opt: torch.optim.lr_scheduler.LinearLR(opt, 1e-5, 1.0, total_iters=100))
    says(ask("learning-rate-dies", warm), Outcome.PASS)


def test_gradients_of_four_batches_added_up() -> None:
    says(ask("accumulation-not-averaged", loop(every=4)), Outcome.WARN, "4 batches make one update", "4 times")
    says(ask("accumulation-not-averaged", loop(every=4, share=0.25)), Outcome.PASS, "enters with 0.25")
    assert ask("accumulation-not-averaged", loop()).outcome is Outcome.SKIP
    divided_by_two = ask("accumulation-not-averaged", loop(every=8, share=0.5))
    says(divided_by_two, Outcome.WARN, "enters with weight 0.5", "4 times that of one large batch")


def in_parts(weight: float, divide: float = 1.0, reduction: str = "mean") -> Trial:
    """One update from a batch that is divided into four."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        for x, y in zip(batch[0].chunk(4), batch[1].chunk(4)):
            loss = F.cross_entropy(model(x), y, reduction=reduction) * weight
            loss.backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad /= divide
        optimizer.step()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


def test_parts_of_one_batch_added_up() -> None:
    says(ask("accumulation-not-averaged", in_parts(1.0)), Outcome.WARN, "4 parts of a batch make one update", "4 times")
    says(ask("accumulation-not-averaged", in_parts(0.25)), Outcome.PASS, "each enters with its share")
    says(ask("accumulation-not-averaged", in_parts(1.0, divide=4.0)), Outcome.PASS)
    assert ask("accumulation-not-averaged", in_parts(1.0, reduction="sum")).outcome is Outcome.SKIP


def test_gradients_divided_before_the_step_are_averaged() -> None:
    verdict = ask("accumulation-not-averaged", loop(every=4, divide=4.0))
    says(verdict, Outcome.PASS, "their sum is divided by 4")


def evaluated(
    metric: Callable[[nn.Module, Any], dict[str, float]], loss: Any = cross_entropy, model: nn.Module | None = None
) -> Trial:
    model = model or mlp()
    trial = trial_of(model, classes(8), loss, torch.optim.Adam(model.parameters(), lr=3e-3))

    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            found = metric(model, batch)
        model.train()
        return found

    trial.evaluate_step = evaluate
    return trial


def test_a_likelihood_that_is_minimised() -> None:
    def likelihood(model: nn.Module, batch: Any) -> Tensor:
        return model(batch[0]).log_softmax(1).gather(1, batch[1][:, None]).mean()

    trial = evaluated(lambda m, b: {"val_nll": -float(likelihood(m, b))}, likelihood)
    says(ask("validation-worsens", trial), Outcome.WARN, "val_nll rises from", "while the training loss falls", "sign")
    other = evaluated(lambda m, b: {"val_loss": 8.0 - 3 * float(cross_entropy(m, b))})
    says(ask("validation-worsens", other), Outcome.WARN, "on training batches", "how it is computed")


@pytest.mark.parametrize(
    ("metric", "smallest", "outcome"),
    [
        ("deviance", True, Outcome.WARN),
        ("deviance", False, Outcome.SKIP),
        ("psnr", True, Outcome.SKIP),
    ],
)
def test_what_the_search_keeps_the_smallest_of_grows(metric: str, smallest: bool, outcome: Outcome) -> None:
    def likelihood(model: nn.Module, batch: Any) -> Tensor:
        return model(batch[0]).log_softmax(1).gather(1, batch[1][:, None]).mean()

    trial = evaluated(lambda m, b: {metric: -float(likelihood(m, b))}, likelihood)
    trial.searched_metric, trial.searches_smallest = metric, smallest
    assert ask("validation-worsens", trial).outcome is outcome


def triplets(sign: int) -> Trial:
    """A hinge of distances; the metric is the share of triplets whose positive is nearer than the negative."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(5, 8, generator=generator)
    kinds = [torch.randint(5, (32,), generator=generator) for _ in range(6)]

    def near(kind: Tensor) -> Tensor:
        return centres[kind] + 0.7 * torch.randn(32, 8, generator=generator)

    batches = [(near(kind), near(kind), near((kind + 1) % 5)) for kind in kinds]

    def gap(model: nn.Module, batch: Any) -> Tensor:
        anchor, positive, negative = (F.normalize(model(part), dim=1) for part in batch)
        return (anchor - positive).pow(2).sum(1) - (anchor - negative).pow(2).sum(1)

    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    trial = trial_of(model, batches, lambda m, b: F.relu(sign * gap(m, b) + 0.3).mean())
    trial.validation_batches = lambda: iter(batches[:2])

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"ranking": float((gap(model, batch) < 0).float().mean())}

    trial.evaluate_step, trial.searched_metric, trial.searches_smallest = evaluate, "ranking", False
    return trial


def test_a_metric_that_falls_on_what_is_learnt_by_heart() -> None:
    searched = Searched("ranking", smallest=False, returned=("ranking",), place=Location())
    fallen = MemorisedMetric.measure(triplets(-1), 60.0)
    verdict = check_validation(ShortRun(), searched, None, fallen)
    says(verdict, Outcome.WARN, "ranking falls from", "16 training samples whose loss", "the search keeps the largest")
    risen = MemorisedMetric.measure(triplets(1), 60.0)
    assert fallen.after < fallen.before < risen.after
    assert check_validation(ShortRun(), searched, None, risen).outcome is Outcome.SKIP
    error = replace(searched, smallest=True)
    assert check_validation(ShortRun(), error, None, fallen).outcome is Outcome.SKIP
    says(ask("validation-worsens", triplets(-1)), Outcome.WARN, "ranking falls from")
    assert ask("validation-worsens", triplets(1)).outcome is Outcome.SKIP


def test_validation_that_improves_or_only_overfits_passes() -> None:
    says(ask("validation-worsens", evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, b))})), Outcome.PASS)
    other = classes(8, batches=1, size=32)[0][1].roll(1)
    apart = evaluated(lambda m, b: {"val_loss": float(F.cross_entropy(m(b[0] * 0), other))})
    says(ask("validation-worsens", apart), Outcome.PASS)


class Attentive(nn.Module):
    """Four places of attention; `rows` masks whole rows of it, `keys` the places that hold nothing, in evaluation."""

    def __init__(self, masked: str) -> None:
        super().__init__()
        self.masked, self.head = masked, nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        places = x.view(len(x), 4, 2)
        empty = (places[..., 0] > 1) & torch.tensor([False, True, True, True])
        scores = places @ places.transpose(1, 2)
        if not self.training:
            scores = scores.masked_fill(empty[:, :, None] if self.masked == "rows" else empty[:, None], -torch.inf)
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        return self.head((weights @ places).flatten(1))


def test_a_validation_loss_that_is_no_number() -> None:
    def attending(masked: str) -> Trial:
        return evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, b))}, model=Attentive(masked))

    says(ask("validation-worsens", attending("rows")), Outcome.FAIL, "val_loss is NaN in", "is the first to give NaN")
    says(ask("validation-worsens", attending("keys")), Outcome.PASS)
    empty = evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, (b[0][:0], b[1][:0])))})
    says(ask("validation-worsens", empty), Outcome.WARN, "val_loss is NaN in")
    sparse = evaluated(lambda m, b: {"val_loss": float(cross_entropy(m, b)), "recall": float("nan")})
    says(ask("validation-worsens", sparse), Outcome.PASS)


def test_an_accuracy_of_one_before_training() -> None:
    def itself(model: nn.Module, batch: Any) -> dict[str, float]:
        predicted = model(batch[0]).argmax(1)
        return {"accuracy": float((predicted == predicted).float().mean())}

    says(ask("metric-impossible", evaluated(itself)), Outcome.WARN, "accuracy is exactly 1 for the untrained model")
    summed = evaluated(lambda m, b: {"acc": float((m(b[0]).argmax(1) != b[1]).sum()) * 100})
    says(ask("metric-impossible", summed), Outcome.WARN, "a share lies between")


def test_an_honest_accuracy_passes() -> None:
    honest = evaluated(lambda m, b: {"accuracy": float((m(b[0]).argmax(1) == b[1]).float().mean())})
    says(ask("metric-impossible", honest), Outcome.PASS)


@pytest.mark.parametrize("rate", [1e4, 30.0])
def test_a_learning_rate_that_diverges(rate: float) -> None:
    says(ask("learning-rate-too-high", loop(rate)), Outcome.FAIL, f"at your learning rate ({rate:g})")


def test_a_rate_that_diverges_under_a_schedule_is_too_high_unless_it_is_warmed_up_to() -> None:
    falling = scheduled(lambda opt: torch.optim.lr_scheduler.StepLR(opt, step_size=100), rate=30.0)
    says(ask("learning-rate-too-high", falling), Outcome.FAIL, "at your learning rate (30)")
    warm = scheduled(lambda opt: torch.optim.lr_scheduler.LinearLR(opt, 1e-3, 1.0, total_iters=100), rate=30.0)
    assert ask("learning-rate-too-high", warm).outcome is Outcome.INCONCLUSIVE


def test_a_closure_that_is_called_ever_more_often_is_no_rising_loss() -> None:
    trial = loop(1.0)
    model, optimizer = trial.models["model"], trial.optimizers["optimizer"]

    def step(batch: Any, index: int) -> Any:
        searching = optimizer.param_groups[0]["lr"] >= 1.0
        for _ in range(1 + index // 5 if searching else 1):
            optimizer.zero_grad()
            cross_entropy(model, batch).backward()
        optimizer.step()
        return {}

    trial.train_step = step
    assert ask("learning-rate-too-high", trial).outcome is not Outcome.FAIL


@pytest.mark.parametrize("rate", [1e-5, 1e-7])
def test_a_learning_rate_that_hardly_moves(rate: float) -> None:
    asked = Asked(loop(rate))
    says(asked.verdict("learning-rate-too-low"), Outcome.WARN, "hardly moves the model")
    says(asked.verdict("learning-rate-too-high"), Outcome.PASS)


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_common_learning_rates_pass(rate: float) -> None:
    asked = Asked(loop(rate))
    for rule in ("learning-rate-too-high", "learning-rate-too-low"):
        assert asked.verdict(rule).outcome is Outcome.PASS, asked.verdict(rule).summary


@pytest.mark.parametrize(("better", "outcome"), [(10.0, Outcome.PASS), (100.0, Outcome.WARN)])
def test_a_plateau_that_ten_times_the_rate_leaves_sooner(better: float, outcome: Outcome) -> None:
    flat, falling = tuple([2.3] * 40), tuple(2.3 - 0.02 * step for step in range(40))
    trials = [
        RateTrial(factor, falling if factor == better else flat, diverged=False) for factor in (0.01, 1.0, better)
    ]
    assert learning_rate_too_low.check(RateTrials(0.05, 40, tuple(trials), warms_up=False)).outcome is outcome


def test_weights_that_move_have_no_rate_that_is_too_low() -> None:
    """As of a sound run over thousands of steps, of which forty tell little: Adam at its usual rate."""
    flat, falling = tuple([2.3] * 40), tuple(2.3 - 0.02 * step for step in range(40))

    def seen(moved: float) -> RateTrials:
        trials = [RateTrial(0.01, flat, diverged=False), RateTrial(1.0, flat, diverged=False, moved=moved)]
        return RateTrials(1e-3, 40, (*trials, RateTrial(100.0, falling, diverged=False)), warms_up=False)

    assert learning_rate_too_low.check(seen(0.001)).outcome is Outcome.WARN
    says(learning_rate_too_low.check(seen(0.15)), Outcome.PASS, "the weights moved by 15 % of their length")


def test_how_far_weights_moved_is_measured_where_they_moved() -> None:
    table = nn.Embedding(1000, 4)
    optimizer = torch.optim.Adam(table.parameters(), lr=1e-3)
    batches = [(torch.tensor([1, 2]), torch.zeros(2, 4))] * 4
    trial = trial_of(table, batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]), optimizer)
    mine = RateTrials.measure(trial, 60.0).of(1.0)
    assert 0.02 < mine.moved < 0.08


def test_a_gan_has_no_rate_to_judge() -> None:
    says(ask("learning-rate-too-high", SOUND["gan"]()), Outcome.INCONCLUSIVE, "several optimizers take turns")
