"""Samples of any length: whether their labels belong to them, and whether they hold their target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.summarised import samples_of, summary
from mlcheck.trial.trial import Trial

Sample = tuple[Tensor, Tensor]
IDS, SIZE = 40, 32


class Bag(nn.Module):
    """The mean of what each row is embedded as, whichever way the samples lie in a batch."""

    def __init__(self, numbers: bool, out: int) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 16) if numbers else nn.Embedding(IDS, 16)
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(16, out))

    def forward(self, rows: Tensor, owner: Tensor, samples: int) -> Tensor:
        embedded = self.embed(rows)
        if len(rows) == samples:
            return self.head(embedded.mean(1))
        pooled = embedded.new_zeros(samples, 16).index_add_(0, owner, embedded)
        return self.head(pooled / torch.bincount(owner, minlength=samples)[:, None])


def padded(samples: list[Sample]) -> dict[str, Tensor]:
    return {"rows": pad_sequence([rows for rows, _ in samples], batch_first=True)}


def owned(samples: list[Sample]) -> dict[str, Tensor]:
    owner = torch.cat([torch.full((len(rows),), place) for place, (rows, _) in enumerate(samples)])
    return {"rows": torch.cat([rows for rows, _ in samples]), "owner": owner}


def counted(samples: list[Sample]) -> dict[str, Tensor]:
    return {
        "rows": torch.cat([rows for rows, _ in samples]),
        "lengths": torch.tensor([len(rows) for rows, _ in samples]),
    }


def begun(samples: list[Sample]) -> dict[str, Tensor]:
    found = counted(samples)
    ends = found.pop("lengths").cumsum(0)
    return {**found, "offsets": torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]])}


FORMS: dict[str, Callable[[list[Sample]], dict[str, Tensor]]] = {
    "padded": padded,
    "owned": owned,
    "counted": counted,
    "begun": begun,
}


def owners(batch: dict[str, Tensor]) -> Tensor:
    if "lengths" in batch:
        return torch.arange(len(batch["lengths"])).repeat_interleave(batch["lengths"])
    if "offsets" in batch:
        return torch.bucketize(torch.arange(len(batch["rows"])), batch["offsets"][1:], right=True)
    return batch.get("owner", torch.zeros(0))


def texts(seed: int, numbers: bool) -> list[Sample]:
    draws = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(320):
        label = int(torch.randint(2, (), generator=draws))
        length = int(torch.randint(6, 12, (), generator=draws))
        ids = torch.randint(1, IDS // 2, (length,), generator=draws) + (IDS // 2) * label
        others = torch.randint(1, IDS, (length,), generator=draws)
        ids = torch.where(torch.rand(length, generator=draws) < 0.5, ids, others)
        rows = torch.randn(length, 4, generator=draws) + label * torch.tensor([1.0, 0.5, 0.0, -1.0])
        found.append((rows if numbers else ids, torch.tensor(label)))
    return found


def shuffled(samples: list[Sample]) -> list[Sample]:
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(7))
    return [(rows, samples[int(place)][1]) for (rows, _), place in zip(samples, order)]


def classifying(
    form: str, numbers: bool, change: Callable[[list[Sample]], list[Sample]], held_out: bool = True
) -> Trial:
    def batches(seed: int, changed: bool) -> list[Any]:
        samples = texts(seed, numbers)
        samples = change(samples) if changed else samples
        groups = [samples[start : start + SIZE] for start in range(0, len(samples), SIZE)]
        return [{**FORMS[form](group), "y": torch.stack([label for _, label in group])} for group in groups]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["rows"], owners(batch), len(batch["y"])), batch["y"])

    model = Bag(numbers, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    evaluate = torch.no_grad()(lambda batch: {"loss": float(loss(model, batch))})
    trial = trial_of(model, batches(0, True), loss, optimizer, evaluate=evaluate)
    validation = batches(1, held_out)
    trial.validation_batches = lambda: iter(validation)
    return trial


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("numbers", [False, True])
def test_labels_that_were_shuffled_in_training(form: str, numbers: bool) -> None:
    says(ask("labels-unrelated", classifying(form, numbers, shuffled, held_out=False)), Outcome.WARN, "unrelated")
    says(ask("labels-unrelated", classifying(form, numbers, list)), Outcome.PASS, "share a label")


def of_their_order(samples: list[Sample]) -> list[Sample]:
    """What comes first decides: how often each id is in a sample says nothing."""
    return [(rows, (rows[0] > rows[-1]).long()) for rows, _ in samples]


def test_labels_that_only_the_order_tells_are_left_open() -> None:
    assert ask("labels-unrelated", classifying("padded", False, of_their_order)).outcome is not Outcome.WARN


def predicting(column: Callable[[Tensor, Tensor], Tensor]) -> Trial:
    """Of end-to-end samples; `column` of the rows and their targets replaces the last number of each row."""
    draws = torch.Generator().manual_seed(5)
    batches = []
    for _ in range(6):
        owner = torch.arange(SIZE).repeat_interleave(torch.randint(3, 9, (SIZE,), generator=draws))
        rows = torch.randn(len(owner), 4, generator=draws)
        means = torch.zeros(SIZE, 4).index_add_(0, owner, rows) / torch.bincount(owner)[:, None]
        y = torch.sin(3 * means[:, 0]) + means[:, 1] * means[:, 2]
        rows[:, 3] = column(rows, y[owner])
        batches.append({"rows": rows, "owner": owner, "y": y})
    model = Bag(True, 1)
    loss = lambda m, b: F.mse_loss(m(b["rows"], b["owner"], len(b["y"])).squeeze(1), b["y"])  # noqa: E731
    return trial_of(model, batches, loss, torch.optim.Adam(model.parameters(), lr=1e-2))


def test_a_target_that_stands_in_every_row_of_its_sample() -> None:
    found = ask("target-in-input", predicting(lambda _, y: 2 * y + 1))
    says(found, Outcome.WARN, "`rows[:, 3]` is the target `y` itself")
    assert ask("target-in-input", predicting(lambda rows, _: rows[:, 0])).outcome is not Outcome.WARN
    assert ask("target-in-input", predicting(lambda _, y: y + torch.randn_like(y))).outcome is not Outcome.WARN


def test_how_many_samples_a_batch_holds() -> None:
    owner = torch.tensor([0, 0, 1, 2, 2])
    assert samples_of([torch.randn(5, 3), owner, torch.zeros(3)]) == 3
    assert samples_of([torch.randn(5, 3), torch.tensor([0, 0, 1, 1, 1])]) == 5  # labels in order
    assert samples_of([torch.randn(5, 3), torch.randn(5), torch.zeros(3)]) == 5
    assert samples_of([]) == 1


def test_what_lies_end_to_end_without_a_word_on_whose_it_is() -> None:
    assert summary(torch.randn(9, 3), [torch.randn(9)], 4, 0) is None
    assert summary(torch.arange(9), [torch.tensor([3, 3, 3, 1])], 4, 9) is None
