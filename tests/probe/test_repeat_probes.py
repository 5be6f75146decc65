"""Probes of what repeats, in the data or among workers: programs with the fault, and such that only look like it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from data_programs import Changed, streamed, table
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from mlcheck.core.outcome import Outcome


def test_a_few_whole_numbers_repeat_by_chance() -> None:
    ids = TensorDataset(torch.randint(5, (300, 3)), torch.zeros(300).long())
    assert ask("samples-repeat", trial_on(ids)).outcome is Outcome.PASS
    one = Changed(ids, lambda _, __: ids[7])
    says(ask("samples-repeat", trial_on(one)), Outcome.WARN, "300 training indices give only 1")
    counted = TensorDataset(torch.zeros(300))  # steps of an epoch, whose samples are drawn elsewhere
    assert ask("samples-repeat", trial_on(counted)).outcome is Outcome.PASS


@pytest.mark.parametrize(
    "wrong",
    [lambda index: index % 64, lambda index: index // 4, lambda index: min(index, 100), lambda index: index % 5 * 60],
    ids=["wraps", "divided", "cut off", "hardly counts"],
)
def test_samples_that_are_equal_by_their_index_alone(wrong: Callable[[int], int]) -> None:
    rows = torch.tensor([wrong(index) for index in range(320)])
    verdict = ask("samples-repeat", trial_on(TensorDataset(*(column[rows] for column in table().tensors))))
    says(verdict, Outcome.FAIL, "320 training indices give only")
    assert "how __getitem__ uses its index" in verdict.findings[0].help


def test_rows_that_a_table_holds_again_are_not_the_index_s_fault() -> None:
    rows = torch.randint(120, (320,), generator=torch.Generator().manual_seed(5))
    verdict = ask("samples-repeat", trial_on(TensorDataset(*(column[rows] for column in table().tensors))))
    says(verdict, Outcome.WARN, "320 training indices give only")
    assert "rows that the data holds again" in verdict.findings[0].help


def test_codes_that_are_scaled_repeat_by_chance() -> None:
    """As of a survey: three answers and an age in decades, all brought to between 0 and 1."""
    draw = torch.Generator().manual_seed(6)
    answers, ages = torch.randint(3, (400, 3), generator=draw) / 2, torch.randint(7, (400, 1), generator=draw) / 6
    codes = TensorDataset(torch.cat([answers, ages], 1), torch.randint(2, (400,), generator=draw))
    says(ask("samples-repeat", trial_on(codes, model=mlp(4))), Outcome.PASS, "different training samples of 400")


class OneGraph(Dataset[Any]):
    """The whole of the data, a number of times."""

    def __init__(self) -> None:
        self.x, self.y = torch.randn(50, 8, generator=torch.Generator().manual_seed(7)), torch.arange(50) % 5

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        return self.x, self.y


def test_a_sample_that_is_all_the_data_may_be_read_again() -> None:
    alone = trial_on(OneGraph())
    alone.loaders["training"] = loader = DataLoader(OneGraph(), collate_fn=lambda items: items[0])
    alone.train_batches = lambda: iter(loader)
    says(ask("samples-repeat", alone), Outcome.INCONCLUSIVE, "it may be all the data")
    first = Changed(table(), lambda _, __: table()[0])
    says(ask("samples-repeat", trial_on(first)), Outcome.FAIL, "only 1 different")


def test_a_weighted_sampler_draws_what_it_has_weights_for() -> None:
    data = TensorDataset(torch.randn(300, 8, generator=torch.Generator().manual_seed(0)), torch.arange(300) % 5)

    def drawn(weights: Tensor) -> Any:
        return trial_on(data, shuffle=False, sampler=WeightedRandomSampler(weights.tolist(), 300))

    of_class = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2])
    says(ask("samples-repeat", drawn(of_class)), Outcome.FAIL, "has 5 weights for 300 samples")
    says(ask("samples-repeat", drawn(of_class[data.tensors[1]])), Outcome.PASS)


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


class LabelledPairs(Triplets):
    """What says whether two belong together is drawn with the second of them, or noise of `width` numbers is."""

    def __init__(self, x: Tensor, width: int, spread: float = 0.0) -> None:
        super().__init__(x, spread)
        self.width = width

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {**super().__getitem__(index), "target": torch.randint(1000, (self.width,)).float()}


def test_the_label_of_a_pair_is_drawn_with_the_pair() -> None:
    x = table().tensors[0]
    drawn = trial_on(LabelledPairs(x, 1), LabelledPairs(x, 1))
    says(ask("validation-augmented", drawn), Outcome.INCONCLUSIVE, "another sample's at each read")
    noisy = trial_on(LabelledPairs(x, 1), LabelledPairs(x, 1, spread=0.1))
    says(ask("validation-augmented", noisy), Outcome.WARN, "`other`")
    says(ask("validation-augmented", trial_on(LabelledPairs(x, 8), LabelledPairs(x, 8))), Outcome.WARN, "`target`")


class Density(Dataset[Any]):
    """Points of a distribution, whatever index is asked for; with `grid`, noise around the point of the index."""

    def __init__(self, grid: bool = False) -> None:
        self.grid = grid

    def __len__(self) -> int:
        return 300

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.randn(2) + (index / 10 if self.grid else 0.0), torch.zeros(1)


def test_samples_of_a_distribution_are_no_augmentation() -> None:
    says(ask("validation-augmented", trial_on(Density(), Density())), Outcome.INCONCLUSIVE, "is drawn at random")
    says(ask("validation-augmented", trial_on(Density(), Density(grid=True))), Outcome.WARN, "noise is added")


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
    monkeypatch.setattr("mlcheck.probe.measure.data.passes.SECONDS", 0.3)
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


def stepping_on(choose: Any, batches: list[Any], model: nn.Module | None = None) -> Any:
    """A loop that trains on what `choose` makes of its batch."""
    model = model or mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        loss = cross_entropy(model, choose(batch))
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial = trial_of(model, batches, cross_entropy, optimizer, step=step)
    trial.objects = (choose,)
    return trial


class First:
    """Keeps the first batch and gives it for ever."""

    kept: Any = None

    def __call__(self, batch: Any) -> Any:
        self.kept = batch if self.kept is None else self.kept
        return self.scaled(self.kept)

    def scaled(self, batch: Any) -> Any:
        return batch


class Halved(First):
    def scaled(self, batch: Any) -> Any:
        return batch[0] / 2, batch[1]


class Earlier(First):
    """One batch behind, as where the next one is on its way to the device."""

    def __call__(self, batch: Any) -> Any:
        before, self.kept = self.kept, batch
        return batch if before is None else before


MANY = classes(8, batches=9)


def test_a_step_that_trains_on_a_batch_it_kept() -> None:
    says(
        ask("batch-ignored", stepping_on(First(), MANY)), Outcome.FAIL, "3 steps on other batches", "first batch again"
    )
    says(ask("batch-ignored", stepping_on(Halved(), MANY)), Outcome.WARN, "ignores its batch")


def test_steps_that_go_by_their_batches() -> None:
    says(ask("batch-ignored", stepping_on(lambda batch: batch, MANY)), Outcome.PASS, "other losses")
    says(ask("batch-ignored", stepping_on(Earlier(), MANY)), Outcome.PASS, "other losses")


def test_a_step_that_draws_its_own_points_may_leave_its_batch_alone() -> None:
    def drawn(batch: Any) -> Any:
        return torch.rand(16, 8), torch.zeros(16).long()

    counted = [(torch.arange(k, k + 4),) for k in range(9)]
    assert ask("batch-ignored", stepping_on(drawn, counted)).outcome is Outcome.INCONCLUSIVE


def test_batches_that_are_all_alike_tell_nothing() -> None:
    assert ask("batch-ignored", stepping_on(First(), [MANY[0]] * 9)).outcome is Outcome.SKIP


def test_losses_of_zero_are_alike_on_any_batch() -> None:
    class Nothing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) * 0 + torch.tensor([100.0, 0, 0, 0, 0])

    batches = [(x, torch.zeros_like(y)) for x, y in MANY]
    assert ask("batch-ignored", stepping_on(lambda batch: batch, batches, Nothing())).outcome is Outcome.PASS
    says(ask("batch-ignored", stepping_on(First(), batches, Nothing())), Outcome.FAIL, "first batch again")
    gridded = [((x, torch.linspace(0, 1, 32)), y) for x, y in batches]
    assert ask("batch-ignored", stepping_on(on_a_grid, gridded, Gridded())).outcome is Outcome.PASS


class Gridded(nn.Module):
    """Given what is the same in all batches, and sure of its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 5)

    def forward(self, given: Any) -> Tensor:
        x, grid = given
        return self.layer(grid.expand(len(x), -1)) * 0 + torch.tensor([100.0, 0, 0, 0, 0])


def on_a_grid(batch: Any) -> Any:
    return batch


class Negatives(Dataset[Any]):
    """A clicked item and one, or as many as `several`, drawn from all."""

    def __init__(self, several: int = 0) -> None:
        self.several = several

    def __len__(self) -> int:
        return 200

    def __getitem__(self, index: int) -> dict[str, Any]:
        drawn = torch.randint(1000, (self.several or 1,))
        return {"user": index, "liked": index % 7, "other": drawn if self.several else drawn.item()}


def test_a_negative_drawn_at_each_read_is_no_augmentation() -> None:
    says(ask("validation-augmented", trial_on(table(), Negatives())), Outcome.INCONCLUSIVE, "drawn at each read")
    says(ask("validation-augmented", trial_on(table(), Negatives(20))), Outcome.INCONCLUSIVE, "negatives")


class Tokens(Dataset[Any]):
    """The numbers of words, of which `changed` makes something else at each read."""

    def __init__(self, changed: Callable[[Tensor], Tensor]) -> None:
        self.texts = torch.randint(5000, (200, 40), generator=torch.Generator().manual_seed(0))
        self.changed = changed

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.changed(self.texts[index]), index % 5


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text[torch.randperm(40)],
        lambda text: text.roll(int(torch.randint(40, ()))),
        lambda text: text[(start := int(torch.randint(20, ()))) : start + 20],
        lambda text: text.masked_fill(torch.rand(40) < 0.3, 0),
    ],
    ids=["shuffled", "rolled", "cropped", "masked"],
)
def test_the_words_of_a_text_in_another_form_are_augmented(changed: Callable[[Tensor], Tensor]) -> None:
    says(ask("validation-augmented", trial_on(table(), Tokens(changed))), Outcome.WARN, "`sample[0]`")


@pytest.mark.parametrize(("rare", "outcome"), [(True, Outcome.PASS), (False, Outcome.WARN)])
def test_rare_classes_that_are_drawn_until_they_are_as_frequent(rare: bool, outcome: Outcome) -> None:
    draw = torch.Generator().manual_seed(7)
    x, y = torch.randn(300, 8, generator=draw), (torch.rand(300, generator=draw) < 0.2).long()
    repeated = (y == rare).nonzero()[:, 0]
    again = repeated[torch.randint(len(repeated), (120,), generator=draw)]
    rows = torch.cat([torch.arange(300), again])
    says(ask("samples-repeat", trial_on(TensorDataset(x[rows], y[rows]))), outcome)
