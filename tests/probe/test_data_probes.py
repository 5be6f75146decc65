"""Probes of samples and splits: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from data_programs import Changed, noisy, streamed, table
from probe_programs import ask, mlp, says, trial_of, trial_on
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from mlcheck.core.outcome import Outcome


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

    says(
        ask("unreadable-sample", trial_on(lengths, collate_fn=pad)),
        Outcome.PASS,
        "320 training samples, and all can be read",
    )


def test_samples_of_different_length_that_never_meet_need_none() -> None:
    lengths = Changed(table(), lambda i, s: (torch.arange(3 + i % 4), s[1]))
    alike = [list(range(first, 320, 4)) for first in range(4)]
    for loader in (DataLoader(lengths), DataLoader(lengths, batch_sampler=alike)):
        trial = trial_on(lengths)
        trial.loaders = {"training": loader}
        says(ask("unreadable-sample", trial), Outcome.PASS, "320 training samples, and all can be read")


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


class Notes(list[Any]):
    """Words and a label, as a collate_fn of the program's own takes them."""

    def __init__(self, count: int, seed: int) -> None:
        draws = torch.Generator().manual_seed(seed)
        words = torch.randint(30, (count, 6), generator=draws).tolist()
        super().__init__(([f"word {word}" for word in row], row[0] % 2) for row in words)


def as_ids(rows: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = [[int(word[5:]) for word in words] + [0, 0] for words, _ in rows]
    return torch.tensor(ids).float(), torch.tensor([label for _, label in rows])


def test_texts_are_compared_before_they_are_turned_into_numbers() -> None:
    known = Notes(300, 1)
    fresh: Any = Notes(100, 2)
    says(ask("splits-overlap", trial_on(known, fresh, collate_fn=as_ids)), Outcome.PASS, "no sample is in both")  # type: ignore[arg-type]
    fresh[:40] = known[50:90]
    says(ask("splits-overlap", trial_on(known, fresh, collate_fn=as_ids)), Outcome.FAIL, "40 of 100", "sample 50")  # type: ignore[arg-type]


def test_the_name_of_a_file_does_not_tell_its_picture_apart() -> None:
    pictures = torch.randn(80, 1, 4, 4, generator=torch.Generator().manual_seed(3))
    known = [{"x": picture, "file": f"{index}.png", "label": index % 3} for index, picture in enumerate(pictures)]
    copies = [{**row, "file": f"copy of {row['file']}"} for row in known[:20]]
    verdict = ask("splits-overlap", trial_on(known, copies))  # type: ignore[arg-type]
    says(verdict, Outcome.FAIL, "20 of 20")


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


class Augmented(IterableDataset[Any]):
    """A table in random order with noise, `shared` between the workers or not, or samples that are made up."""

    def __init__(self, shared: bool, made_up: bool = False) -> None:
        self._shared, self._made_up = shared, made_up

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        first, every = (worker.id, worker.num_workers) if worker and self._shared else (0, 1)
        rows = list(table())[first::every]
        for index in torch.randperm(len(rows)).tolist():
            x, y = rows[index]
            yield (torch.randn(8), torch.randint(5, ())) if self._made_up else (x + 0.1 * torch.randn(8), y)


def test_the_validation_data_beside_a_stream_is_read_by_index() -> None:
    ragged = Changed(table(), lambda index, sample: (sample[0][: 7 if index == 40 else 8], sample[1]))
    trial = trial_on(Augmented(shared=True), ragged, shuffle=False)
    says(ask("unreadable-sample", trial), Outcome.FAIL, "validation samples differ in the shape", "sample 40 has (7,)")
    sound = trial_on(Augmented(shared=True), table(), shuffle=False)
    says(ask("unreadable-sample", sound), Outcome.PASS, "320 validation samples")
    assert ask("unreadable-sample", streamed(Augmented(shared=True))).outcome is Outcome.SKIP


def test_workers_that_each_read_a_whole_stream_and_augment_it() -> None:
    verdict = ask("iterable-not-sharded", streamed(Augmented(shared=False)))
    says(verdict, Outcome.WARN, "gives 320 samples", "augmented anew")
    says(ask("iterable-not-sharded", streamed(Augmented(shared=True))), Outcome.PASS)
    says(ask("iterable-not-sharded", streamed(Augmented(shared=False, made_up=True))), Outcome.PASS)


@pytest.mark.parametrize(("shared", "outcome"), [(False, Outcome.WARN), (True, Outcome.PASS)])
def test_an_epoch_that_ends_when_half_of_what_the_workers_give_was_read(shared: bool, outcome: Outcome) -> None:
    """As a framework does that is told how many records an epoch has."""
    trial = streamed(Augmented(shared=shared))
    whole = trial.train_batches
    trial.train_batches = lambda: islice(whole(), 10)
    says(ask("iterable-not-sharded", trial), outcome)


def test_workers_that_each_read_a_whole_stream() -> None:
    verdict = ask("iterable-not-sharded", streamed(Stream(shared=False)))
    says(verdict, Outcome.FAIL, "comes 2 times in a pass, 640 in all and 320 different ones")
    says(ask("iterable-not-sharded", streamed(Stream(shared=True))), Outcome.PASS, "320 different samples of 320")


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


def test_a_target_that_training_inputs_alone_hold_is_shown_to_a_decoder() -> None:
    def forecast(model: Any, batch: Any) -> Any:
        return F.mse_loss(model(batch[0].unsqueeze(1)).squeeze(1)[:, -4:], batch[1])

    decoder = nn.Sequential(nn.AdaptiveAvgPool1d(8), nn.Linear(8, 8))
    taught = windows(-4)
    asked = Changed(table(300), lambda index, _: (taught[index][0][:12], taught[index][1]))
    verdict = ask("target-in-input", trial_on(taught, asked, model=decoder, loss=forecast))
    says(verdict, Outcome.INCONCLUSIVE, "in training alone, validation's inputs end before it")
    says(
        ask("target-in-input", trial_on(taught, windows(-4), model=decoder, loss=forecast)), Outcome.WARN, "is part of"
    )


def test_numbers_of_a_column_and_sparse_samples_are_read() -> None:
    rows = np.random.default_rng(0).normal(size=(320, 9)).astype(np.float32)
    column = torch.from_numpy(rows[:, [-1]])
    assert column[0].stride() != (1,)
    data = TensorDataset(torch.from_numpy(rows[:, :-1]), column)
    regression = trial_on(data, model=mlp(8, 1), loss=lambda m, b: F.mse_loss(m(b[0]), b[1]))
    says(ask("unreadable-sample", regression), Outcome.PASS, "320 training samples")
    says(ask("samples-repeat", regression), Outcome.PASS, "320 different training samples")

    def dense(samples: list[Any]) -> Any:
        return torch.stack([x.to_dense() for x, _ in samples]), torch.stack([y for _, y in samples])

    sparse = trial_on(Changed(table(), lambda _, sample: (sample[0].to_sparse(), sample[1])), collate_fn=dense)
    for rule in ("collate-mixes-samples", "unreadable-sample", "samples-repeat"):
        assert ask(rule, sparse).outcome is Outcome.PASS, rule


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


def flipped(*apart: bool) -> Changed:
    """A picture and its mask, flipped at random: together, or each on its own."""
    pictures = torch.randn(40, 2, 1, 6, 6, generator=torch.Generator().manual_seed(5))

    def change(_: int, sample: Any) -> Any:
        first = bool(torch.rand(()) < 0.5)
        second = bool(torch.rand(()) < 0.5) if apart else first
        return tuple(one.flip(-1) if moved else one for one, moved in zip(sample, (first, second)))

    return Changed(TensorDataset(pictures[:, 0], pictures[:, 1]), change)


def test_pictures_and_masks_that_are_flipped_in_validation() -> None:
    still = TensorDataset(torch.randn(40, 1, 6, 6), torch.randn(40, 1, 6, 6))
    says(ask("validation-augmented", trial_on(still, flipped())), Outcome.WARN, "flipped left to right, together")
    assert ask("validation-augmented", trial_on(still, flipped(True))).outcome is Outcome.INCONCLUSIVE


def test_views_that_are_drawn_at_each_read_are_no_augmented_validation() -> None:
    views = Changed(table(seed=2), lambda index, sample: (noisy(index, sample)[0], noisy(index, sample)[0]))
    assert ask("validation-augmented", trial_on(views, views)).outcome is Outcome.INCONCLUSIVE
