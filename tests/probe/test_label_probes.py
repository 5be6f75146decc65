"""Probes of the labels: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from data_programs import Changed
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset, default_collate

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def clusters(rows: int = 400, seed: int = 1, spread: float = 1.0) -> TensorDataset:
    """Five classes, each around its own corner; the class means are the same for every seed."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % 5
    corners = 4 * torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(corners[labels] + spread * torch.randn(rows, 8, generator=generator), labels)


def relabelled(data: TensorDataset, share: float) -> TensorDataset:
    x, y = data.tensors
    changed = y.clone()
    some = torch.randperm(len(y), generator=torch.Generator().manual_seed(3))[: int(share * len(y))]
    changed[some] = (y[some] + 1) % 5
    return TensorDataset(x, changed)


def test_a_fifth_of_the_labels_wrong() -> None:
    verdict = ask("label-noise", trial_on(relabelled(clusters(), 0.2), clusters(seed=2)))
    says(verdict, Outcome.WARN, "of labels", "in validation 0.0 % do (at most ")
    assert verdict.numbers["low"] < 0.2 < verdict.numbers["high"]
    assert verdict.figures[0].kind == "table"


def test_labels_that_an_augmentation_makes_wrong() -> None:
    def turned(index: int, sample: tuple[Tensor, Tensor]) -> Any:
        other = clusters().tensors[0][(index + 1) % 400]  # of the next class
        return (other if torch.rand(()) < 0.2 else sample[0]) + 0.01 * torch.randn(8), sample[1]

    verdict = ask("label-noise", trial_on(Changed(clusters(), turned), clusters(seed=2)))
    says(verdict, Outcome.WARN, "of labels", "training samples are augmented, and may no longer show")


@pytest.mark.parametrize("share", [0.0, 0.03])
def test_few_wrong_labels_pass(share: float) -> None:
    says(ask("label-noise", trial_on(relabelled(clusters(), share), clusters(seed=2))), Outcome.PASS)


def test_one_far_value_hides_no_other_column() -> None:
    far = clusters()
    far.tensors[0][17, 3] = 1e9
    says(ask("label-noise", trial_on(far, clusters(seed=2))), Outcome.PASS)
    says(ask("label-noise", trial_on(relabelled(far, 0.2), clusters(seed=2))), Outcome.WARN, "of labels")


def test_classes_that_overlap_are_no_noise() -> None:
    overlapping = trial_on(clusters(spread=12.0), clusters(seed=2, spread=12.0))
    assert ask("label-noise", overlapping).outcome in (Outcome.PASS, Outcome.INCONCLUSIVE)


def test_noise_is_told_from_overlap_by_held_out_samples() -> None:
    few = clusters(rows=20, seed=2)
    for held_out in (few, relabelled(clusters(seed=2), 0.2)):
        verdict = ask("label-noise", trial_on(relabelled(clusters(), 0.2), held_out))
        assert verdict.outcome is not Outcome.WARN, verdict.summary


def erased(share: float) -> Any:
    def change(_: int, sample: tuple[Tensor, Tensor]) -> Any:
        noise = torch.randn(8)
        return (noise if torch.rand(()) < share else sample[0] + 0.2 * noise), sample[1]

    return Changed(clusters(), change)


def test_augmentation_that_replaces_most_samples() -> None:
    shuffled = Changed(clusters(), lambda _, sample: (10 * torch.randn(8), sample[1]))
    verdict = ask("augmentation-destroys-label", trial_on(shuffled, clusters(seed=2)))
    says(verdict, Outcome.WARN, "augmentation hides what the label says")


def scenes(change: Any, rows: int = 40) -> Changed:
    """Pictures of a bright block on noise, its mask and its box, changed as they are read."""
    generator = torch.Generator().manual_seed(1)
    pictures, masks = torch.rand(rows, 1, 16, 16, generator=generator), torch.zeros(rows, 16, 16, dtype=torch.long)
    corners = torch.randint(0, 10, (rows, 2), generator=generator)
    for picture, mask, (y, x) in zip(pictures, masks, corners.tolist()):
        picture[:, y : y + 5, x : x + 4] += 2.0
        mask[y : y + 5, x : x + 4] = 1
    boxes = torch.cat([corners, corners + 4], dim=1).float() / 16
    return Changed(TensorDataset(pictures, masks, boxes), change)


def trial_on_scenes(training: Dataset[Any], validation: Dataset[Any]) -> Trial:
    """A trial whose model takes the pictures, whatever comes beside them."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return model(batch["image"] if isinstance(batch, dict) else batch[0]).square().mean()

    return trial_on(training, validation, nn.Conv2d(1, 1, 3, padding=1), loss)


def flipped(*moved: str, axis: int = -1, noise: float = 0.0) -> Any:
    def change(_: int, sample: Any) -> dict[str, Tensor]:
        parts = dict(zip(("image", "mask", "box"), sample))
        if torch.rand(()) < 0.5:
            parts |= {name: parts[name].flip(axis) for name in moved}
        parts["image"] = parts["image"] + noise * torch.randn(1, 16, 16)
        return {name: part for name, part in parts.items() if name != "box" or "mask" not in moved}

    return change


@pytest.mark.parametrize(("axis", "how"), [(-1, "flipped left to right"), (-2, "flipped upside down")])
def test_a_flip_that_leaves_the_mask_behind(axis: int, how: str) -> None:
    trial = trial_on_scenes(scenes(flipped("image", axis=axis, noise=0.05)), scenes(flipped()))
    said = f"`image` is {how} and `mask` stays as it was"
    says(ask("augmentation-destroys-label", trial), Outcome.FAIL, "augmentation moves the picture", said)


def test_a_flip_that_leaves_the_boxes_behind() -> None:
    def boxes_alone(index: int, sample: Any) -> Any:
        return {name: part for name, part in flipped("image")(index, sample).items() if name != "mask"}

    says(
        ask("augmentation-destroys-label", trial_on_scenes(scenes(boxes_alone), scenes(flipped()))),
        Outcome.FAIL,
        "`box`",
    )


@pytest.mark.parametrize("change", [flipped("image", "mask"), flipped(noise=0.05), flipped("image", "mask", noise=0.1)])
def test_what_moves_together_or_not_at_all_is_no_fault(change: Any) -> None:
    assert (
        ask("augmentation-destroys-label", trial_on_scenes(scenes(change), scenes(flipped()))).outcome is Outcome.SKIP
    )


def test_two_views_that_are_flipped_apart_are_no_picture_and_mask() -> None:
    def views(_: int, sample: Any) -> Any:
        return tuple(sample[0].flip(-1) if torch.rand(()) < 0.5 else sample[0] for _ in range(2))

    assert ask("augmentation-destroys-label", trial_on_scenes(scenes(views), scenes(views))).outcome is Outcome.SKIP


def noisy(deviation: float, of: Any) -> Any:
    return Changed(of, lambda _, sample: (sample[0] + deviation * torch.randn(8), sample[1]))


def test_noise_that_drowns_the_sample() -> None:
    drowned = ask("augmentation-destroys-label", trial_on(noisy(60.0, clusters()), clusters(seed=2)))
    says(drowned, Outcome.WARN, "augmentation drowns the sample", "times what validation samples differ by")
    for trial in (
        trial_on(noisy(60.0, clusters()), noisy(60.0, clusters(seed=2))),
        trial_on(noisy(2.0, clusters()), clusters(seed=2)),
    ):
        assert "drowns" not in ask("augmentation-destroys-label", trial).summary


def test_mild_augmentation_passes() -> None:
    says(ask("augmentation-destroys-label", trial_on(erased(0.1), clusters(seed=2))), Outcome.PASS)
    plain = ask("augmentation-destroys-label", trial_on(clusters(), clusters(seed=2)))
    assert plain.outcome is Outcome.SKIP


def sequences() -> Any:
    """Token sequences of different lengths."""
    generator = torch.Generator().manual_seed(5)
    return Changed(
        clusters(120),
        lambda i, sample: (torch.randint(1, 30, (3 + i % 7,), generator=generator.manual_seed(i)), sample[1]),
    )


def one_logit(model: Any, batch: Any) -> Tensor:
    return F.binary_cross_entropy_with_logits(model(batch[0])[:, 0], batch[1])


def zero_or_one(data: TensorDataset) -> TensorDataset:
    """Whether the class is one of two."""
    return TensorDataset(data.tensors[0], (data.tensors[1] < 2).float())


def test_labels_of_one_logit_are_labels_too() -> None:
    flipped_some = zero_or_one(clusters())
    some = torch.randperm(400, generator=torch.Generator().manual_seed(3))[:100]
    flipped_some.tensors[1][some] = 1 - flipped_some.tensors[1][some]
    held_out = zero_or_one(clusters(seed=2))
    says(ask("label-noise", trial_on(flipped_some, held_out, loss=one_logit)), Outcome.WARN, "of labels")
    says(ask("label-noise", trial_on(zero_or_one(clusters()), held_out, loss=one_logit)), Outcome.PASS)


def test_one_logit_is_not_taken_for_another_field_of_the_batch() -> None:
    x, y = clusters().tensors
    order = y.argsort()  # the first batch has class 0 alone, as the other target has zeros alone
    digit, rare = y[order], torch.zeros(len(y))
    trial = trial_on(TensorDataset(x[order], digit, rare), loss=lambda m, b: one_logit(m, (b[0], b[2])), shuffle=False)
    says(ask("label-out-of-range", trial), Outcome.PASS, "labels 0 to 0 for 2 outputs")


def test_labels_of_one_logit_in_order() -> None:
    x, y = zero_or_one(clusters()).tensors
    order = y.argsort()
    trial = trial_on(TensorDataset(x[order], y[order]), loss=one_logit, shuffle=False)
    says(ask("training-data-not-shuffled", trial), Outcome.FAIL, "changes 1 times")


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


@pytest.mark.parametrize("none", [-1, 4])
def test_samples_without_a_label_are_no_noise(none: int) -> None:
    """As of semi-supervised training: the loss leaves them out."""
    data = clusters(800)
    y = data.tensors[1] % 4
    seen = torch.where(torch.rand(800, generator=torch.Generator().manual_seed(5)) < 0.4, none, y)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1], ignore_index=none)

    x, whole = clusters(seed=2).tensors
    trial = trial_on(TensorDataset(data.tensors[0], seen), TensorDataset(x, whole % 4), loss=loss)
    says(ask("label-noise", trial), Outcome.PASS)
