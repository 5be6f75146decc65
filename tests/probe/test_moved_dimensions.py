"""Dimensions that are moved and merged as if they had not been; and all the ways to move and merge them rightly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from probe_programs import ask, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "view-as-transpose"
Change = Callable[[Tensor], Tensor]


class Averaging(nn.Module):
    """Maps of 5 channels, 12 high and 11 wide, that are changed in shape and averaged over what comes last."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.maps, self.change = nn.Conv2d(1, 5, 3, padding=1), change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(self.maps(x)).flatten(2).softmax(-1).std(2)[:, :5]


def averaging(change: Change) -> Trial:
    batches = [(torch.randn(8, 1, 12, 11), torch.randint(5, (8,))) for _ in range(4)]
    return trial_of(Averaging(change), batches, cross_entropy)


TORN: dict[str, Change] = {
    "permute": lambda x: x.permute(0, 2, 3, 1).reshape(len(x), 5, -1),
    "a copy between": lambda x: x.permute(0, 2, 3, 1).contiguous().view(len(x), 5, -1),
    "transposed twice": lambda x: x.transpose(1, 2).transpose(2, 3).reshape(len(x), 5, 132),
}


@pytest.mark.parametrize("name", TORN)
def test_dimensions_that_are_moved_and_merged_as_if_they_were_not(name: str) -> None:
    verdict = ask(RULE, averaging(TORN[name]))
    says(verdict, Outcome.WARN, "(8, 5, 12, 11) is moved to (8, 12, 11, 5)", "without the move")
    assert verdict.findings[0].location.path.endswith("test_moved_dimensions.py")


KEPT: dict[str, Change] = {
    "tokens": lambda x: x.permute(0, 2, 3, 1).reshape(len(x), 132, 5),
    "moved back": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).reshape(len(x), 5, -1),
    "rows with channels": lambda x: x.permute(0, 2, 1, 3).reshape(len(x), 12, 55),
    "channels in a new order": lambda x: x.transpose(2, 3).reshape(len(x), 5, 132),
    "windows": lambda x: x.reshape(len(x), 5, 3, 4, 11).permute(0, 2, 1, 3, 4).reshape(len(x), 15, 4, 11),
    "all of a sample": lambda x: x.permute(0, 2, 3, 1).reshape(len(x), 1, -1).expand(-1, 5, -1),
    "perhaps a few rows together": lambda x: x.movedim(1, -1).reshape(len(x), 60, 11),
    "a few strips": lambda x: x.permute(0, 3, 2, 1).reshape(len(x), 11, 12, 5).reshape(len(x), 11, -1),
}


@pytest.mark.parametrize("name", KEPT)
def test_dimensions_that_are_merged_in_their_new_order(name: str) -> None:
    assert ask(RULE, averaging(KEPT[name])).outcome is not Outcome.WARN


def shuffled(x: Tensor, groups: int) -> Tensor:
    size = x.shape
    return x.view(len(x), groups, -1, *size[2:]).transpose(1, 2).reshape(size)


def test_channels_that_are_shuffled_between_groups() -> None:
    assert ask(RULE, averaging(lambda x: shuffled(torch.cat([x, x], 1), 2))).outcome is Outcome.PASS


def test_heads_put_together_without_moving_them_back() -> None:
    def heads(x: Tensor) -> Tensor:
        tokens = x.flatten(2).transpose(1, 2)[..., :4].reshape(len(x), 132, 2, 2)  # (n, t, h, d)
        return tokens.transpose(1, 2).reshape(len(x), 132, 4)

    says(ask(RULE, averaging(heads)), Outcome.WARN, "(8, 132, 2, 2) is moved to (8, 2, 132, 2)")


class Tagging(nn.Module):
    """A tag of five for each of seven places, with the scores in the shape that a loss wants them in."""

    def __init__(self, change: Change, tags: int = 5) -> None:
        super().__init__()
        self.scores, self.change = nn.Linear(3, tags), change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(self.scores(x))


def tagging(change: Change, tags: int = 5) -> Trial:
    batches = [(torch.randn(8, 7, 3), torch.randint(tags, (8, 7))) for _ in range(4)]
    return trial_of(Tagging(change, tags), batches, cross_entropy)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.view(len(s), 5, 7),
        lambda s: s.reshape(len(s), 5, -1),
        lambda s: s.reshape(len(s), 5, -1).contiguous(),
    ],
)
def test_scores_that_a_view_puts_in_the_shape_that_the_loss_wants(change: Change) -> None:
    verdict = ask(RULE, tagging(change))
    says(verdict, Outcome.WARN, "a view makes (8, 5, 7) of (8, 7, 5)", "numbers of several places")


def test_scores_that_are_moved_or_have_as_many_places_as_classes() -> None:
    assert ask(RULE, tagging(lambda s: s.transpose(1, 2))).outcome is not Outcome.WARN
    assert ask(RULE, tagging(lambda s: s.transpose(1, 2).reshape(len(s), 5, 7))).outcome is not Outcome.WARN
    assert ask(RULE, tagging(lambda s: s.view(len(s), 7, 7), tags=7)).outcome is not Outcome.WARN


class Series(nn.Module):
    """Six numbers in each of forty steps, that a layer goes along."""

    def __init__(self, change: Change, encodes: bool = False) -> None:
        super().__init__()
        self.encode = nn.Linear(6, 6) if encodes else nn.Identity()
        self.along, self.change, self.head = nn.Conv1d(6, 5, 3), change, nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.along(self.change(self.encode(x))).relu().mean(2))


class Recurrent(nn.Module):
    """The same given with the numbers first."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.along, self.change = nn.GRU(6, 5, batch_first=True), change

    def forward(self, x: Tensor) -> Tensor:
        return self.along(self.change(x.transpose(1, 2).contiguous()))[0][:, -1]


def of_series(model: nn.Module, waves: Tensor) -> Trial:
    return trial_of(model, [(batch, torch.arange(16) % 5) for batch in waves.split(16)], cross_entropy)


def waves() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    begins = torch.rand(64, 1, 6, generator=generator)
    return torch.sin(torch.arange(40)[:, None] / 3 + 6 * begins) + torch.arange(6)


def by_view(x: Tensor) -> Tensor:
    return x.reshape(len(x), x.shape[2], x.shape[1])


@pytest.mark.parametrize("model", [Series(by_view), Series(by_view, encodes=True), Recurrent(by_view)])
def test_steps_and_features_that_a_view_exchanges(model: nn.Module) -> None:
    verdict = ask(RULE, of_series(model, waves()))
    says(verdict, Outcome.WARN, "a layer that goes along steps is given renumbered ones", "numbers of several steps")


def test_steps_and_features_in_their_order() -> None:
    stored_by_feature = waves().transpose(1, 2).reshape(64, 40, 6)  # as a file of another layout is read
    for model, data in (
        (Series(lambda x: x.transpose(1, 2)), waves()),
        (Series(lambda x: x.transpose(1, 2).reshape(len(x), 6, 40)), waves()),
        (Series(by_view), stored_by_feature),
        (Series(lambda x: by_view(by_view(by_view(x)).flatten(1).unflatten(1, (40, 6)))), stored_by_feature),
        (Recurrent(lambda x: x.transpose(1, 2)), waves()),
    ):
        assert ask(RULE, of_series(model, data)).outcome is not Outcome.WARN


class Strip(nn.Module):
    """A picture of eight channels, 6 high and 40 wide, that a recurrent layer reads from left to right."""

    def __init__(self, change: Change, along: nn.Module) -> None:
        super().__init__()
        self.paint, self.change, self.along = nn.Conv2d(1, 8, 3, padding=1), change, along
        self.head = nn.LazyLinear(5)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.along(self.change(self.paint(x.transpose(1, 2).unsqueeze(1)).relu()))
        return self.head((seen[0] if isinstance(seen, tuple) else seen).flatten(1))


def reading() -> nn.Module:
    return nn.GRU(48, 5, batch_first=True)


def test_columns_of_a_picture_that_a_view_makes() -> None:
    torn = Strip(lambda x: x.reshape(len(x), 40, 48), reading())
    torn(waves()[:2])
    says(ask(RULE, of_series(torn, waves())), Outcome.WARN, "(16, 40, 48) of (16, 8, 6, 40)")
    for change, along in (
        (lambda x: x.permute(0, 3, 1, 2).reshape(len(x), 40, 48), reading()),
        (lambda x: x.flatten(1, 2).transpose(1, 2), reading()),
        (lambda x: x.reshape(len(x), 48, 40), nn.Conv1d(48, 5, 3)),
        (lambda x: x.reshape(len(x), 8, 240), nn.Conv1d(8, 5, 3)),
        (lambda x: x.permute(0, 2, 3, 1).reshape(len(x), 120, 16), nn.GRU(16, 5, batch_first=True)),
        (lambda x: x.reshape(len(x), 40, 48).mean(1), nn.Linear(48, 5)),
    ):
        model = Strip(change, along)
        model(waves()[:2])
        assert ask(RULE, of_series(model, waves())).outcome is not Outcome.WARN
