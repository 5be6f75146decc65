"""Collate functions that part inputs from their labels, and those that keep them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from data_programs import Changed
from label_programs import clusters, one_logit
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def sequences() -> Any:
    """Token sequences of different lengths."""
    generator = torch.Generator().manual_seed(5)
    return Changed(
        clusters(120),
        lambda i, sample: (torch.randint(1, 30, (3 + i % 7,), generator=generator.manual_seed(i)), sample[1]),
    )


def padded(rows: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def sorts_inputs_only(batch: list[Any]) -> Any:
    return padded(sorted((x for x, _ in batch), key=len)), torch.stack([y for _, y in batch])


def sorts_samples(batch: list[Any]) -> Any:
    batch = sorted(batch, key=lambda sample: len(sample[0]))
    return padded([x for x, _ in batch]), torch.stack([y for _, y in batch])


def mixes(batch: list[Any]) -> Any:
    x, y = default_collate(batch)
    return 0.7 * x + 0.3 * x.roll(1, 0), y


def test_inputs_sorted_without_their_labels() -> None:
    verdict = ask("collate-mixes-samples", trial_on(sequences(), collate_fn=sorts_inputs_only))
    says(verdict, Outcome.FAIL, "the labels of other samples", "of 32 pairs are wrong")
    assert verdict.findings[0].location.symbol == "sorts_inputs_only"


def test_inputs_sorted_without_labels_that_become_numbers() -> None:
    def to_float(batch: list[Any]) -> Any:
        words, labels = sorts_inputs_only(batch)
        return words, labels.float()

    verdict = ask("collate-mixes-samples", trial_on(sequences(), collate_fn=to_float, loss=one_logit))
    says(verdict, Outcome.FAIL, "the labels of other samples")


def test_samples_sorted_as_a_whole_pass() -> None:
    says(ask("collate-mixes-samples", trial_on(sequences(), collate_fn=sorts_samples)), Outcome.PASS, "all 32 inputs")


def test_labels_that_a_collate_function_loses_now_and_then() -> None:
    def at_times(batch: list[Any]) -> Any:
        x, y = default_collate(batch)
        return (x, y) if torch.rand(()) < 0.7 else (x[torch.randperm(len(x))], y)

    def together(batch: list[Any]) -> Any:
        x, y = default_collate(batch)
        order = torch.randperm(len(x))
        return x[order], y[order]

    verdict = ask("collate-mixes-samples", trial_on(clusters(), collate_fn=at_times))
    says(verdict, Outcome.FAIL, "the labels of other samples")
    says(ask("collate-mixes-samples", trial_on(clusters(), collate_fn=together)), Outcome.PASS)


def test_mixed_samples_are_left_open() -> None:
    assert ask("collate-mixes-samples", trial_on(clusters(), collate_fn=mixes)).outcome is Outcome.INCONCLUSIVE
    assert ask("collate-mixes-samples", trial_on(clusters())).outcome is Outcome.SKIP


def first_input(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return torch.stack([rows[0][0] for _ in rows]), torch.stack([y for _, y in rows])


def first_label(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """A grid that all samples share beside what is each one's own."""
    grid = torch.linspace(0, 1, 8)
    return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows]), grid.expand(len(rows), 8)


class Boxed(Dataset[Any]):
    """Pictures with boxes, a list of them each."""

    def __init__(self) -> None:
        self.pictures, self.corners = torch.rand(40, 1, 4, 4), torch.randint(0, 9, (40, 2, 4)).float()

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        return self.pictures[index], {"boxes": self.corners[index], "kinds": torch.tensor([0, 1])}


def of_boxes(turn: Any, *beside: Any) -> Any:
    def collate(samples: list[Any]) -> Any:
        pictures, targets = (list(parts) for parts in zip(*samples, strict=True))
        return torch.stack(pictures), turn(targets), *(torch.stack(more(pictures)) for more in beside)

    return trial_on(Boxed(), collate_fn=collate)


def test_boxes_that_come_beside_other_pictures() -> None:
    verdict = ask("collate-mixes-samples", of_boxes(lambda targets: targets[::-1]))
    says(verdict, Outcome.FAIL, "`batch[0]` comes in another order than `batch[1][0].boxes`", "32 of 32 pairs")
    says(ask("collate-mixes-samples", of_boxes(list)), Outcome.PASS)


def test_boxes_that_cannot_be_told_or_stand_beside_others_on_purpose() -> None:
    moved = of_boxes(lambda targets: [{"boxes": one["boxes"] + 0.5} for one in targets[::-1]])
    assert ask("collate-mixes-samples", moved).outcome is Outcome.SKIP
    pairs = of_boxes(lambda targets: targets[::-1], lambda pictures: pictures[::-1])
    assert ask("collate-mixes-samples", pairs).outcome is Outcome.SKIP


def packed(owners: Callable[[int], list[int]]) -> Trial:
    """Sets of points, one behind the other, beside the number of the set that each point is said to be of."""
    generator = torch.Generator().manual_seed(0)
    sets = [(torch.randn(2 + i % 5, 3, generator=generator), i % 7) for i in range(64)]

    def collate(rows: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
        said = zip(owners(len(rows)), rows, strict=True)
        return {
            "points": torch.cat([points for points, _ in rows]),
            "owner": torch.cat([torch.full((len(points),), owner) for owner, (points, _) in said]),
            "count": torch.tensor([count for _, count in rows]),
        }

    def loss(model: nn.Module, batch: Any) -> Tensor:
        size = len(batch["count"])
        totals = torch.zeros(size, 3).index_add_(0, batch["owner"], batch["points"])
        return F.cross_entropy(model(totals), batch["count"])

    return trial_on(sets, model=nn.Linear(3, 7), loss=loss, collate_fn=collate)


def test_sets_that_are_packed_come_with_their_own_labels() -> None:
    rule = "collate-mixes-samples"
    says(ask(rule, packed(lambda n: list(range(n))[::-1])), Outcome.FAIL, "`owner` comes in another order than `count`")
    says(ask(rule, packed(lambda n: list(range(n)))), Outcome.PASS)
    assert ask(rule, packed(lambda n: [0] * n)).outcome is Outcome.INCONCLUSIVE


def test_a_batch_of_one_sample() -> None:
    verdict = ask("collate-mixes-samples", trial_on(clusters(), collate_fn=first_input))
    says(verdict, Outcome.FAIL, "one sample into every row", "all 32 rows of `batch[0]`")
    assert ask("collate-mixes-samples", trial_on(clusters(), collate_fn=first_label)).outcome is Outcome.PASS


def test_a_mask_of_what_was_padded_is_no_sample() -> None:
    """Every picture has one box and two places to spare: its mask begins like the label 0 and goes on alike."""

    def spare(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
        kept = torch.tensor([False, True, True]).repeat(len(rows), 1)
        return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows]), kept

    assert ask("collate-mixes-samples", trial_on(clusters(), collate_fn=spare)).outcome is Outcome.PASS
