"""Size and cost of models: counted right, and alarming only where one layer is nearly all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, says, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "layer-outweighs-model"


def on(model: nn.Module, *shape: int, size: int = 4) -> Trial:
    return trial_of(
        model, classes(*shape, size=size, batches=1), cross_entropy, torch.optim.SGD(model.parameters(), 0.1)
    )


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.LSTM | nn.GRU | nn.RNN], pool: int = 1) -> None:
        super().__init__()
        self.rnn, self.head, self.pool = kind(3, 8, batch_first=True), nn.Linear(8, 5), pool

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x[:, :: self.pool])[0][:, -1])


def test_parameters_operations_and_bytes() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    verdict = ask(RULE, on(model, 1, 8, 8))
    says(verdict, Outcome.PASS, "761 parameters")
    assert verdict.numbers["operations a sample"] == 2 * (36 * 4 * 9 + 144 * 5)
    assert verdict.numbers["output bytes a sample"] == 4 * (144 + 144 + 144 + 5)
    rows = verdict.figures[0].data["rows"]
    assert [row[1] for row in rows] == ["Conv2d", "ReLU", "Flatten", "Linear"]
    assert rows[1][4] == 0


def test_memory_in_training_is_told_by_module() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 5))
    model[0].weight.requires_grad_(False)
    model[0].bias.requires_grad_(False)
    trial = trial_of(model, classes(8, size=4, batches=1), cross_entropy, torch.optim.Adam(model.parameters()))
    verdict = ask(RULE, trial)
    rows = {row[0]: row[2:] for row in verdict.figures[1].data["rows"]}
    last = 4 * (16 * 5 + 5)
    assert rows["0"] == [4 * (8 * 16 + 16), 0, 0, 0]  # frozen: neither gradient nor moments, nothing kept for backward
    assert rows["4"][:2] == [last, last]
    assert rows["4"][2] == 2 * last + 2 * 4  # two moments of Adam, and a count for each of two parameters
    assert rows["3"][3] > 0  # dropout keeps its mask
    assert rows["4"][3] == 4 * 16  # its input, a sample
    assert verdict.numbers["state bytes"] == sum(sum(row[:3]) for row in rows.values())


def test_gradients_that_are_collected_over_batches_are_waited_for() -> None:
    model = nn.Linear(8, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def third(batch: Any, step: int) -> dict[str, Any]:
        loss = cross_entropy(model, batch)
        loss.backward()
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss}

    trial = replace(trial_of(model, classes(8, size=4, batches=3), cross_entropy, optimizer), train_step=third)
    assert ask(RULE, trial).figures[1].data["rows"][0][2:5] == [180, 180, 180]


def test_a_view_of_a_parameter_may_enter_a_module() -> None:
    class Queried(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key = nn.Parameter(torch.randn(1, 8)), nn.Linear(8, 8)
            self.head = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.key(self.query.expand(len(x), -1)) * x)

    model = Queried()
    says(ask(RULE, on(model, 8)), Outcome.PASS, "125 parameters")
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_what_torch_does_not_count_is_no_zero() -> None:
    rows = ask(RULE, on(Recurrent(nn.LSTM), 20, 3)).figures[0].data["rows"]
    flops = {row[1]: row[4] for row in rows}
    assert flops["LSTM"] == "uncounted" or flops["LSTM"] > 0
    assert flops["Linear"] == 80


def test_a_linear_layer_over_a_whole_map_and_a_recurrence_over_thousands_of_steps() -> None:
    wide = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Flatten(), nn.Linear(8 * 32 * 32, 256), nn.Linear(256, 5))
    says(ask(RULE, on(wide, 1, 32, 32)), Outcome.WARN, "takes all 8,192 numbers of 8 x 32 x 32", "99.9 % of the model")
    says(ask(RULE, on(Recurrent(nn.GRU), 1200, 3, size=2)), Outcome.WARN, "`rnn` (GRU) runs over 1,200 steps")


@pytest.mark.parametrize(
    "trial",
    [
        lambda: on(nn.Sequential(nn.Linear(9000, 256), nn.ReLU(), nn.Linear(256, 5)), 9000),
        lambda: on(nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 5)), 1, 28, 28),
        lambda: on(Recurrent(nn.GRU, pool=4), 1200, 3, size=2),
        *SOUND.values(),
    ],
    ids=["word counts", "mnist", "shortened first", *SOUND],
)
def test_ordinary_models(trial: Any) -> None:
    assert ask(RULE, trial()).outcome in (Outcome.PASS, Outcome.SKIP)


@pytest.mark.parametrize(("width", "outcome"), [(2100, Outcome.WARN), (900, Outcome.PASS)])
def test_a_flattened_map_that_is_widened(width: int, outcome: Outcome) -> None:
    """1,024 numbers of a map to 2,100 hidden units; to 900 there are less than two million weights."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, width), nn.ReLU(), nn.Linear(width, 5)
    )
    assert ask(RULE, on(model, 1, 8, 8)).outcome is outcome


def test_a_flattened_map_that_is_narrowed() -> None:
    model = nn.Sequential(nn.Conv2d(1, 49, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 700), nn.Linear(700, 5))
    assert ask(RULE, on(model, 1, 8, 8)).outcome is Outcome.PASS


class Words(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(rows, 16), nn.Linear(16, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids).mean(1))


@pytest.mark.parametrize(("highest", "outcome"), [(40, Outcome.WARN), (149_000, Outcome.PASS)])
def test_an_embedding_of_far_more_words_than_there_are(highest: int, outcome: Outcome) -> None:
    generator = torch.Generator().manual_seed(0)
    batches = [
        (torch.randint(highest, (32, 6), generator=generator), torch.randint(5, (32,), generator=generator))
        for _ in range(4)
    ]
    says(ask(RULE, trial_of(Words(150_000), batches, cross_entropy)), outcome)
