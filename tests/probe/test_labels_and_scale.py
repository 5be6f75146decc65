"""Probes of labels, order and scale: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from data_programs import Changed, table
from probe_programs import ask, mlp, says, trial_of, trial_on
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome


@pytest.mark.parametrize(("shift", "bad"), [(1, "holds 5"), (-1, "holds -1")])
def test_labels_that_begin_at_one_or_minus_one(shift: int, bad: str) -> None:
    labels = Changed(table(), lambda i, s: (s[0], s[1] + shift))
    verdict = ask("label-out-of-range", trial_on(labels, table(seed=2)))
    says(verdict, Outcome.FAIL, bad, "the model has 5 outputs")


def test_one_label_out_of_range_deep_in_the_data() -> None:
    labels = Changed(table(), lambda i, s: (s[0], s[1] * 0 + 7 if i == 200 else s[1]))
    says(ask("label-out-of-range", trial_on(labels, shuffle=False)), Outcome.FAIL, "holds 7", "sample 200 of a pass")


def test_the_ignored_label_is_in_range() -> None:
    labels = Changed(table(), lambda i, s: (s[0], s[1] * 0 - 100 if i % 3 == 0 else s[1]))
    says(ask("label-out-of-range", trial_on(labels)), Outcome.PASS, "labels 0 to 4 for 5 outputs")


def test_a_class_that_only_validation_has() -> None:
    training = torch.utils.data.Subset(table(), [i for i, (_, y) in enumerate(table()) if y != 3])
    says(ask("label-out-of-range", trial_on(training, table(seed=2))), Outcome.WARN, "class 3", "never in a pass")


def sorted_table() -> TensorDataset:
    x, y = table().tensors
    order = y.argsort()
    return TensorDataset(x[order], y[order])


def test_samples_sorted_by_class() -> None:
    verdict = ask("training-data-not-shuffled", trial_on(sorted_table(), shuffle=False))
    says(verdict, Outcome.FAIL, "`batch[1]` changes 4 times along a pass of 320 samples", "same order in every pass")


@pytest.mark.parametrize("falls", [False, True])
def test_samples_sorted_by_a_target_that_is_a_number(falls: bool) -> None:
    x = torch.randn(320, 8, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + x[:, 1]).sort(descending=falls)
    data = TensorDataset(x[y.indices], y.values[:, None])

    def squared(model: nn.Module, batch: Any) -> Tensor:
        return F.mse_loss(model(batch[0]), batch[1])

    def asked(shuffle: bool) -> Verdict:
        return ask("training-data-not-shuffled", trial_on(data, model=mlp(8, 1), loss=squared, shuffle=shuffle))

    says(asked(shuffle=False), Outcome.WARN, f"only {'falls' if falls else 'rises'} along a pass of 320 samples")
    assert asked(shuffle=True).outcome is Outcome.PASS


def test_the_same_order_in_every_epoch() -> None:
    verdict = ask("training-data-not-shuffled", trial_on(table(), shuffle=False))
    says(verdict, Outcome.WARN, "the same 10 batches in the same order")


@pytest.mark.parametrize(("others", "outcome"), [(320, Outcome.INCONCLUSIVE), (300, Outcome.WARN)])
def test_a_curriculum_goes_over_to_a_loader_that_shuffles(others: int, outcome: Outcome) -> None:
    """The same samples in two loaders; where one of them lacks some, it is another split's."""
    data = table()
    easy_first = Subset(data, data.tensors[0].norm(dim=1).argsort().tolist())
    later = DataLoader(Subset(Subset(data, list(range(320))[::-1]), range(others)), batch_size=32, shuffle=True)
    verdict = ask("training-data-not-shuffled", trial_on(easy_first, shuffle=False))
    assert len(later) == 10
    assert verdict.outcome is outcome, verdict


@pytest.mark.parametrize(("shuffles", "outcome"), [(True, Outcome.PASS), (False, Outcome.WARN)])
def test_a_sampler_that_shuffles_by_the_epoch_s_number(shuffles: bool, outcome: Outcome) -> None:
    """The program's loop calls `set_epoch`; whether it does is what set-epoch-missing asks."""
    sampler: Any = DistributedSampler(table(), num_replicas=1, rank=0, shuffle=shuffles)
    sampler.set_epoch(3)
    verdict = ask("training-data-not-shuffled", trial_on(table(), shuffle=False, sampler=sampler))
    assert verdict.outcome is outcome, verdict
    assert sampler.epoch == 3


def test_text_that_is_read_in_order_may_have_to_be() -> None:
    tokens = torch.randint(50, (11, 20, 8), generator=torch.Generator().manual_seed(0))
    embed = nn.Embedding(50, 50)
    trial = trial_of(embed, list(tokens), lambda model, text: F.cross_entropy(model(text[:-1]).mT, text[1:]))
    says(ask("training-data-not-shuffled", trial), Outcome.INCONCLUSIVE, "carries its state")


@pytest.mark.parametrize(("stride", "outcome"), [(6, Outcome.INCONCLUSIVE), (4, Outcome.WARN)])
def test_chunks_that_go_on_where_the_last_ones_ended(stride: int, outcome: Outcome) -> None:
    """Parallel readings of a series, with targets: a state may be carried; windows that merely overlap carry none."""
    series = torch.randn(5, 80, generator=torch.Generator().manual_seed(0))
    starts = range(0, 72, stride)
    batches = [(series[:, s : s + 6, None], series[:, s + 1 : s + 7, None]) for s in starts]
    trial = trial_of(nn.Linear(1, 1), batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
    assert ask("training-data-not-shuffled", trial).outcome is outcome


def test_a_program_that_only_predicts_has_nothing_to_shuffle() -> None:
    trial = trial_on(table(), shuffle=False)
    trial.train_step = lambda *_: {}
    assert "nothing learns" in ask("training-data-not-shuffled", trial).reason


def test_shuffled_samples_pass() -> None:
    says(ask("training-data-not-shuffled", trial_on(sorted_table())), Outcome.PASS, "other batches")


def scaled(data: TensorDataset, factor: float, shift: float = 0.0) -> TensorDataset:
    x, y = data.tensors
    return TensorDataset(factor * x + shift, y)


@pytest.mark.parametrize("factor", [0.05, 30.0])
def test_validation_in_another_scale(factor: float) -> None:
    verdict = ask("splits-scaled-differently", trial_on(table(), scaled(table(seed=2), factor)))
    says(verdict, Outcome.WARN, "times the standard deviation in validation")


def inked(seed: int, factor: float = 1.0, shift: float = 0.0, floor: bool = True) -> TensorDataset:
    """Small pictures on a background of zeros, or without one."""
    draws = torch.Generator().manual_seed(seed)
    x = torch.rand(320, 1, 8, 8, generator=draws) * (torch.rand(320, 1, 8, 8, generator=draws) < 0.4)
    x = (x if floor else x + torch.rand(x.shape, generator=draws)) * factor + shift
    return TensorDataset(x.flatten(1), torch.randint(5, (320,), generator=draws))


@pytest.mark.parametrize(("training", "validation"), [((2.0, -1.0), (1.0, 0.0)), ((1.0, 0.0), (2.0, -1.0))])
def test_pictures_that_one_split_alone_centres(training: tuple[float, float], validation: tuple[float, float]) -> None:
    trial = trial_on(inked(1, *training), inked(2, *validation), model=mlp(64))
    says(ask("splits-scaled-differently", trial), Outcome.WARN, "in training and from", "mean and deviation say the")


def test_ranges_that_say_nothing() -> None:
    """A wider drift, padding with another number, fewer bright pictures, and the same scale."""
    padded = inked(1).tensors[0].clone()
    padded[:100, 40:] = -1.0
    brighter = inked(2).tensors[0].clamp(max=0.6)
    for training, validation in (
        (inked(1, 1.4, -1.0, floor=False), inked(2, floor=False)),
        (TensorDataset(padded, inked(1).tensors[1]), inked(2)),
        (inked(1), TensorDataset(brighter, inked(2).tensors[1])),
        (inked(1, 2.0, -1.0), inked(2, 2.0, -1.0)),
    ):
        trial = trial_on(training, validation, model=mlp(64))
        says(ask("splits-scaled-differently", trial), Outcome.PASS)


class Strips(Dataset[Any]):
    """Sequences of unlike length."""

    def __init__(self, rows: int, seed: int, factor: float) -> None:
        draws = torch.Generator().manual_seed(seed)
        lengths = torch.randint(8, 20, (rows,), generator=draws).tolist()
        self.rows = [(factor * torch.randn(length, 8, generator=draws), length % 5) for length in lengths]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.rows[index]


def padded(rows: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    return pad_sequence([x for x, _ in rows], batch_first=True), torch.tensor([y for _, y in rows])


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, Outcome.PASS), (0.1, Outcome.WARN)])
def test_batches_are_padded_to_unlike_lengths(factor: float, outcome: Outcome) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0]).mean(1), batch[1])

    trial = trial_on(Strips(320, 0, 1.0), Strips(160, 1, factor), loss=loss, collate_fn=padded)
    verdict = ask("splits-scaled-differently", trial)
    assert verdict.outcome is outcome, verdict


def windows(values: Tensor, factor: float = 1.0) -> TensorDataset:
    x = factor * values.unfold(0, 8, 1)
    return TensorDataset(x, torch.arange(len(x)) % 5)


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, Outcome.PASS), (0.2, Outcome.WARN)])
def test_a_level_that_wanders_less_in_a_short_stretch_is_no_other_scale(factor: float, outcome: Outcome) -> None:
    noise = torch.randn(1000, generator=torch.Generator().manual_seed(3))
    level = torch.cat([torch.linspace(0, 60, 800), torch.linspace(50, 62, 200)]) + noise
    trial = trial_on(windows(level[:800]), windows(level[800:], factor))
    assert ask("splits-scaled-differently", trial).outcome is outcome


def test_a_drift_between_splits_is_no_other_scale() -> None:
    verdict = ask("splits-scaled-differently", trial_on(table(), scaled(table(seed=2), 1.5, shift=2.0)))
    says(verdict, Outcome.PASS)


def test_few_features_that_spread_more_are_no_other_scale() -> None:
    x, y = table(seed=2).tensors
    some: Tensor = x.clone()
    some[:, :3] *= 50
    says(ask("splits-scaled-differently", trial_on(table(), TensorDataset(some, y))), Outcome.PASS)


def test_a_sample_with_nan_is_named_by_its_index() -> None:
    spoilt = Changed(table(), lambda i, s: (s[0] / 0 if i == 123 else s[0], s[1]))
    says(ask("non-finite-batch", trial_on(spoilt)), Outcome.FAIL, "sample 123 of the data set holds")
    says(ask("non-finite-batch", trial_on(table())), Outcome.PASS)


def test_validation_that_was_not_scaled_at_all() -> None:
    raw = table(seed=2).tensors[0] * torch.tensor([1e-4, 1e-3, 0.01, 0.05, 20.0, 50.0, 300.0, 1000.0])
    verdict = ask("splits-scaled-differently", trial_on(table(), TensorDataset(raw, table(seed=2).tensors[1])))
    says(verdict, Outcome.WARN, "9.05e-05 to 955 times the standard deviation", "nearly all of 8 features")


@pytest.mark.parametrize(("centre", "told"), [(5.0, Outcome.WARN), (0.0, Outcome.PASS)])
def test_columns_that_spread_by_one_before_they_were_scaled(centre: float, told: Outcome) -> None:
    """Without their own centre most of them cannot be told from scaled ones."""
    raw = table(seed=2).tensors[0] * torch.tensor([1.0, 20.0, 2.0, 0.1, 5.0, 1.0, 1.5, 1.0]) + centre
    trial = trial_on(table(), TensorDataset(raw, table(seed=2).tensors[1]))
    assert ask("splits-scaled-differently", trial).outcome is told


def measured(seed: int, decimals: int = 2) -> Tensor:
    """Rows of eight quantities, as somebody wrote them down."""
    drawn = torch.randn(320, 8, generator=torch.Generator().manual_seed(seed))
    kinds = torch.tensor([[13.0, 0.8], [2.3, 1.1], [2.4, 0.3], [19.0, 3.3], [2.0, 1.0], [5.0, 2.3], [1.6, 0.6], [3, 1]])
    return ((drawn * kinds[:, 1] + kinds[:, 0]) * 10**decimals).round() / 10**decimals


def standardised(rows: Tensor) -> Tensor:
    return (rows - measured(1).mean(0)) / measured(1).std(0)


def judged(training: Tensor, validation: Tensor) -> Any:
    splits = [TensorDataset(x, torch.arange(len(x)) % 5) for x in (training, validation)]
    return ask("splits-scaled-differently", trial_on(*splits, model=mlp(training.shape[1])))


@pytest.mark.parametrize("rows", [320, 35])
def test_validation_as_it_was_measured(rows: int) -> None:
    verdict = judged(standardised(measured(1)), measured(2)[:rows])
    says(verdict, Outcome.WARN, "standardised in training and not in validation", "8 columns", "2 decimals at most")


def test_decimals_that_are_no_raw_values() -> None:
    """Both standardised, both raw, stored with few decimals, later and elsewhere, and flags that neither scales."""
    train, flags = standardised(measured(1)), (measured(3) > measured(3).mean(0)).float()
    for training, validation in (
        (train, standardised(measured(2))),
        (train, standardised(measured(2))[:35]),
        (measured(1), measured(2)),
        (train, (standardised(measured(2)) * 1000).round() / 1000),
        (train, standardised(measured(2) + 1.5)),
        (torch.cat([train[:, :3], flags], 1), torch.cat([standardised(measured(2))[:, :3], flags.roll(5, 0)], 1)),
    ):
        says(judged(training, validation), Outcome.PASS)


def test_columns_that_one_split_lacks_are_rare() -> None:
    rare = (torch.rand(640, 40, generator=torch.Generator().manual_seed(0)) < 0.002).float()
    y = torch.zeros(320, dtype=torch.long)
    trial = trial_on(TensorDataset(rare[:320], y), TensorDataset(rare[320:], y), model=mlp(40))
    assert ask("splits-scaled-differently", trial).outcome is not Outcome.WARN


def only_known(model: nn.Module, batch: Any) -> Tensor:
    """The loss of several tasks, of which a sample has some: what is missing is NaN."""
    known = ~batch[1].isnan()
    return F.mse_loss(model(batch[0])[known], batch[1][known])


def times_zero(model: nn.Module, batch: Any) -> Tensor:
    return ((model(batch[0]) - batch[1]).square() * (~batch[1].isnan())).mean()


@pytest.mark.parametrize(
    ("loss", "missing", "outcome"),
    [
        (only_known, float("nan"), Outcome.INCONCLUSIVE),
        (times_zero, float("nan"), Outcome.FAIL),
        (only_known, float("inf"), Outcome.FAIL),
    ],
)
def test_missing_targets_that_are_left_out(loss: Any, missing: float, outcome: Outcome) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(8):
        y = torch.randn(32, 3, generator=generator)
        y[torch.rand(32, 3, generator=generator) < 0.2] = missing
        batches.append((torch.randn(32, 8, generator=generator), y))
    verdict = ask("non-finite-batch", trial_of(mlp(8, 3), batches, loss))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


def test_batches_that_are_passed_over_do_not_leave_out_missing_values() -> None:
    batches = [(torch.randn(32, 8), torch.randn(32, 3)) for _ in range(8)]
    for x, _ in batches[::2]:
        x[0, 0] = float("nan")
    model = mlp(8, 3)
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        loss = F.mse_loss(model(batch[0]), batch[1])
        if loss.isfinite():
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return {"loss": loss.detach()}

    trial = trial_of(model, batches, lambda net, batch: F.mse_loss(net(batch[0]), batch[1]), optimizer, step=step)
    assert ask("non-finite-batch", trial).outcome is Outcome.FAIL
