"""Probes of the data: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from mlcheck.core.outcome import Outcome


def table(rows: int = 320, seed: int = 1, classes: int = 5) -> TensorDataset:
    """Random features; the class is the largest of the first five."""
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, x[:, :classes].argmax(1))


class Changed(Dataset[Any]):
    """A data set with every sample passed through a function of its index."""

    def __init__(self, samples: Dataset[Any], change: Callable[[int, Any], Any]) -> None:
        self._samples, self._change = samples, change

    def __len__(self) -> int:
        return len(self._samples)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return self._change(index, self._samples[index])


def noisy(index: int, sample: Any) -> Any:
    return sample[0] + torch.randn(8), sample[1]


def test_a_sample_that_raises_is_named() -> None:
    def change(index: int, sample: Any) -> Any:
        if index == 217:
            raise OSError("could not read record")
        return sample

    verdict = ask("unreadable-sample", trial_on(Changed(table(), change)))
    says(verdict, Outcome.FAIL, "sample 217 raises OSError: could not read record")
    assert verdict.findings[0].location.path.endswith("test_data_probes.py")
    assert verdict.findings[0].numbers["index"] == 217


def test_samples_of_different_length_need_a_collate_function() -> None:
    lengths = Changed(table(), lambda i, s: (torch.arange(3 + i % 4), s[1]))
    says(ask("unreadable-sample", trial_on(lengths)), Outcome.FAIL, "differ in the shape of `sample[0]`", "collate_fn")

    def pad(samples: list[Any]) -> Any:
        rows = [torch.nn.functional.pad(x, (0, 7 - len(x))) for x, _ in samples]
        return torch.stack(rows), torch.stack([y for _, y in samples])

    says(ask("unreadable-sample", trial_on(lengths, collate_fn=pad)), Outcome.PASS, "all 320 training samples")


def test_a_data_set_that_cannot_be_indexed_is_left_open() -> None:
    def change(index: int, sample: Any) -> Any:
        raise RuntimeError("the file is opened in worker_init_fn")

    says(ask("unreadable-sample", trial_on(Changed(table(), change))), Outcome.INCONCLUSIVE, "no sample can be asked")


def test_batches_without_a_data_set_are_skipped() -> None:
    trial = trial_of(mlp(), [table()[:32]], lambda m, b: m(b[0]).sum())
    assert ask("unreadable-sample", trial).outcome is Outcome.SKIP
    assert ask("splits-overlap", trial).outcome is Outcome.SKIP


def test_training_rows_in_validation() -> None:
    whole = table()
    leak = torch.utils.data.Subset(whole, range(40, 140))
    rest = torch.utils.data.Subset(whole, range(240))
    verdict = ask("splits-overlap", trial_on(rest, leak))
    says(verdict, Outcome.FAIL, "100 of 100 validation samples", "sample 0 is training sample 40")
    assert verdict.numbers["shared"] == 100


def test_rows_apart_share_nothing() -> None:
    says(ask("splits-overlap", trial_on(table(), table(seed=2))), Outcome.PASS, "no sample is in both")


def test_small_discrete_samples_repeat_by_chance() -> None:
    def pairs(seed: int) -> TensorDataset:
        return TensorDataset(
            torch.randint(12, (300, 2), generator=torch.Generator().manual_seed(seed)), torch.zeros(300)
        )

    says(ask("splits-overlap", trial_on(pairs(1), pairs(2))), Outcome.PASS, "no more than equal ones occur")


def test_augmented_training_samples_leave_overlap_open() -> None:
    whole = table()
    verdict = ask("splits-overlap", trial_on(Changed(whole, noisy), whole))
    says(verdict, Outcome.INCONCLUSIVE, "augmented")


def test_training_samples_that_a_flip_hides_now_and_then() -> None:
    whole = table()
    flip = Changed(whole, lambda _, sample: (sample[0].flip(0) if torch.rand(()) < 0.5 else sample[0], sample[1]))
    says(ask("splits-overlap", trial_on(flip, torch.utils.data.Subset(whole, range(90)))), Outcome.FAIL, "90 of 90")
    apart = ask("splits-overlap", trial_on(flip, table(seed=2)))
    says(apart, Outcome.INCONCLUSIVE, "augmented")


class Stream(IterableDataset[Any]):
    """The rows of a table, those of each worker or all of them in each."""

    def __init__(self, shared: bool) -> None:
        self._shared = shared

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        assert worker
        return islice(iter(table()), *((worker.id, None, worker.num_workers) if self._shared else (None,)))


def test_workers_that_each_read_a_whole_stream() -> None:
    verdict = ask("iterable-not-sharded", streamed(Stream(shared=False)))
    says(verdict, Outcome.FAIL, "comes 2 times in a pass, 640 in all and 320 different ones")
    says(ask("iterable-not-sharded", streamed(Stream(shared=True))), Outcome.PASS, "320 different samples of 320")


def streamed(data: IterableDataset[Any]) -> Any:
    return trial_on(data, shuffle=False, num_workers=2)


def windows(gap: int) -> Any:
    series = torch.randn(400, generator=torch.Generator().manual_seed(2)).cumsum(0)
    pairs = [(series[i : i + 16], series[i + 16 + gap : i + 20 + gap]) for i in range(300)]
    return Changed(table(300), lambda index, _: pairs[index])


def test_a_target_that_is_the_end_of_its_input() -> None:
    def forecast(model: Any, batch: Any) -> Any:
        return F.mse_loss(model(batch[0]), batch[1])

    leaking = trial_on(windows(-4), model=mlp(16, 4), loss=forecast)
    says(
        ask("target-in-input", leaking),
        Outcome.WARN,
        "the target `batch[1]` is part of the input `batch[0]`",
        "numbers 12 to 15",
    )
    ahead = trial_on(windows(0), model=mlp(16, 4), loss=forecast)
    assert ask("target-in-input", ahead).outcome is not Outcome.WARN
    itself = trial_on(windows(0), model=mlp(16, 16), loss=lambda m, b: F.mse_loss(m(b[0]), b[0]))
    assert ask("target-in-input", itself).outcome is not Outcome.WARN


def test_overlapping_pictures_are_shown() -> None:
    pictures = TensorDataset(torch.rand(64, 1, 8, 8), torch.zeros(64))
    kinds = [figure.kind for figure in ask("splits-overlap", trial_on(pictures, pictures)).figures]
    assert kinds == ["images", "table"]


def test_an_index_that_wraps() -> None:
    whole = table()
    wrapped = Changed(whole, lambda index, sample: whole[index % 64])
    says(ask("samples-repeat", trial_on(wrapped)), Outcome.FAIL, "320 training indices give only 64", "sample 64 is")


def test_an_index_that_wraps_behind_an_augmentation() -> None:
    whole = table()
    wrapped = Changed(whole, lambda index, sample: noisy(index, whole[index % 64]))
    says(ask("samples-repeat", trial_on(wrapped)), Outcome.FAIL, "only 64")


def test_rare_samples_repeated_on_purpose_only_warn() -> None:
    whole = table()
    repeated = torch.utils.data.Subset(whole, [*range(200), *[0, 1, 2, 3] * 25])
    says(ask("samples-repeat", trial_on(repeated)), Outcome.WARN, "300 training indices")


def test_a_sampler_with_replacement_repeats_nothing() -> None:
    weights = WeightedRandomSampler([1.0] * 10 + [0.01] * 310, 320)
    trial = trial_on(table(), shuffle=False, sampler=weights)
    assert ask("samples-repeat", trial).outcome in (Outcome.PASS, Outcome.SKIP)


def test_noise_on_validation_samples() -> None:
    says(ask("validation-augmented", trial_on(table(), Changed(table(seed=2), noisy))), Outcome.WARN, "differ between")
    verdict = ask("validation-augmented", trial_on(Changed(table(), noisy), table(seed=2)))
    says(verdict, Outcome.PASS, "training samples vary in `sample[0]`")


def test_views_that_are_drawn_at_each_read_are_no_augmented_validation() -> None:
    views = Changed(table(seed=2), lambda index, sample: (noisy(index, sample)[0], noisy(index, sample)[0]))
    assert ask("validation-augmented", trial_on(views, views)).outcome is Outcome.INCONCLUSIVE


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


def test_the_same_order_in_every_epoch() -> None:
    verdict = ask("training-data-not-shuffled", trial_on(table(), shuffle=False))
    says(verdict, Outcome.WARN, "the same 10 batches in the same order")


def test_text_that_is_read_in_order_may_have_to_be() -> None:
    tokens = torch.randint(50, (11, 20, 8), generator=torch.Generator().manual_seed(0))
    embed = nn.Embedding(50, 50)
    trial = trial_of(embed, list(tokens), lambda model, text: F.cross_entropy(model(text[:-1]).mT, text[1:]))
    says(ask("training-data-not-shuffled", trial), Outcome.INCONCLUSIVE, "carries its state")


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
    says(verdict, Outcome.WARN, "times the spread in validation")


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


def test_a_few_whole_numbers_repeat_by_chance() -> None:
    ids = TensorDataset(torch.randint(5, (300, 3)), torch.zeros(300).long())
    assert ask("samples-repeat", trial_on(ids)).outcome is Outcome.PASS


class Pairs(Dataset[Any]):
    """As for metric learning: whatever the index, two samples drawn at random."""

    def __init__(self) -> None:
        self.x = torch.randn(128, 40, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        one, other = torch.randint(128, (2,)).tolist()
        return torch.cat([self.x[one], self.x[other]])[:8], index % 2


def test_pairs_drawn_at_random_are_no_repetition() -> None:
    verdict = ask("samples-repeat", trial_on(Pairs()))
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.summary
    assert "draws its samples at random" in verdict.reason


def test_validation_that_was_not_scaled_at_all() -> None:
    raw = table(seed=2).tensors[0] * torch.tensor([1e-4, 1e-3, 0.01, 0.05, 20.0, 50.0, 300.0, 1000.0])
    verdict = ask("splits-scaled-differently", trial_on(table(), TensorDataset(raw, table(seed=2).tensors[1])))
    says(verdict, Outcome.WARN, "9.05e-05 to 955 times the spread", "nearly all of 8 features")


def test_columns_that_one_split_lacks_are_rare() -> None:
    rare = (torch.rand(640, 40, generator=torch.Generator().manual_seed(0)) < 0.002).float()
    y = torch.zeros(320, dtype=torch.long)
    trial = trial_on(TensorDataset(rare[:320], y), TensorDataset(rare[320:], y), model=mlp(40))
    assert ask("splits-scaled-differently", trial).outcome is not Outcome.WARN


class Triplets(Dataset[Any]):
    """A fixed anchor with a positive and a negative drawn anew; with `spread`, a noisy anchor instead."""

    def __init__(self, x: Tensor, spread: float = 0.0) -> None:
        self.x, self.spread = x, spread

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        other = self.x[int(torch.randint(len(self.x), ()))]
        noise = self.spread * torch.randn(self.x.shape[1])
        return {"anchor": self.x[index], "other": self.x[index] + noise if self.spread else other}


def test_partners_that_are_drawn_at_each_read_are_no_augmentation() -> None:
    x = table().tensors[0]
    drawn = trial_on(Triplets(x), Triplets(x))
    says(ask("validation-augmented", drawn), Outcome.INCONCLUSIVE, "another sample's at each read")
    says(ask("validation-augmented", trial_on(Triplets(x), Triplets(x, spread=0.1))), Outcome.WARN, "`other`")


class Endless(IterableDataset[Any]):
    """Random rows without an end; each worker draws its own, or all the same, or one batch again and again."""

    def __init__(self, own: bool, again: int = 0, rows: int = 3000) -> None:
        self.own, self.again, self.rows = own, again, rows

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        seed = worker.id if worker and self.own else 0
        generator, given = torch.Generator().manual_seed(seed), 0
        while given < self.rows:
            if self.again and given % self.again == 0:
                generator.manual_seed(seed)
            given += 1
            yield torch.randn(8, generator=generator), int(torch.randint(5, (), generator=generator))


def test_workers_of_an_endless_stream_that_draw_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcheck.probe.measure.passes.SECONDS", 0.3)
    alike, apart = (streamed(Endless(own, rows=1_000_000)) for own in (False, True))
    says(ask("iterable-not-sharded", alike), Outcome.FAIL, "one of each worker, and all equal")
    assert ask("iterable-not-sharded", apart).outcome is not Outcome.FAIL


def test_a_stream_that_gives_one_batch_again_and_again() -> None:
    says(ask("samples-repeat", trial_on(Endless(True, 32), shuffle=False)), Outcome.FAIL, "one batch again and again")
    says(ask("samples-repeat", trial_on(Endless(True), shuffle=False)), Outcome.PASS, "different batches")


def drawn_again(x: Tensor) -> TensorDataset:
    """Rows drawn with replacement."""
    rows = torch.randint(len(x), (400,), generator=torch.Generator().manual_seed(3))
    return TensorDataset(x[rows], torch.zeros(400, dtype=torch.long))


def halves(data: TensorDataset) -> Any:
    x, y = data.tensors
    return trial_on(TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:]), model=mlp(x.shape[1]))


def test_rows_that_were_repeated_before_the_split() -> None:
    verdict = ask("splits-overlap", halves(drawn_again(table(300).tensors[0])))
    says(verdict, Outcome.WARN, "the data was repeated before it was split")


def test_ratings_that_are_cut_off_repeat_by_chance() -> None:
    """A user and an item meet again, and their stars are at the end of the scale."""
    draw = torch.Generator().manual_seed(4)
    users, items = torch.randint(30, (900, 1), generator=draw), torch.randint(3, (900, 1), generator=draw)
    stars = (3 + 2 * torch.randn(900, 1, generator=draw)).clamp(1, 5)
    training, held_out = ([part[rows] for part in (users, items, stars)] for rows in (slice(600), slice(600, None)))
    apart = trial_on(TensorDataset(*training), TensorDataset(*held_out))
    says(ask("splits-overlap", apart), Outcome.PASS, "no more than equal ones occur")
    rated = torch.cat([users, items, stars], 1)
    together = trial_on(TensorDataset(rated[:600], stars[:600]), TensorDataset(rated[600:], stars[600:]))
    says(ask("splits-overlap", together), Outcome.PASS, "no more than equal ones occur")


def test_rows_of_few_values_repeat_by_chance() -> None:
    codes = torch.randint(4, (300, 3), generator=torch.Generator().manual_seed(4)).float() / 3 - 0.123
    says(ask("splits-overlap", halves(drawn_again(codes))), Outcome.PASS, "no more than equal ones occur")
