"""Weights before training: all alike, tied by their memory, frozen as they were drawn, and units that are dead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, on_classes, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


@pytest.mark.parametrize("value", [0.0, 0.02])
def test_weights_all_the_same(value: float) -> None:
    model = mlp()
    for layer in (model[0], model[2], model[4]):
        nn.init.constant_(layer.weight, value)
        nn.init.zeros_(layer.bias)
    says(ask("weights-start-equal", on_classes(model)), Outcome.FAIL, "`0.weight`", "still are after")


def test_one_constant_layer_before_a_random_one_only_warns() -> None:
    model = mlp()
    nn.init.constant_(model[0].weight, 0.01)
    says(ask("weights-start-equal", on_classes(model)), Outcome.WARN, "every number of `0.weight` is 0.01")


def test_a_last_layer_of_zeros_moves_apart() -> None:
    model = mlp()
    nn.init.zeros_(model[4].weight)
    says(ask("weights-start-equal", on_classes(model)), Outcome.PASS, "`4.weight` began at zero and moved apart")


class Pairs(nn.Module):
    """Two tables, the scores their products."""

    def __init__(self, *starts: float) -> None:
        super().__init__()
        self.centre, self.context = nn.Embedding(20, 8), nn.Embedding(20, 8)
        for table, spread in zip((self.centre, self.context), starts, strict=True):
            nn.init.normal_(table.weight, std=spread)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.centre(tokens[:, 0]) @ self.context.weight.T


class Rated(nn.Module):
    """The score of a pair is the sum of products, or a layer of its own turns these into one."""

    def __init__(self, mixed: bool) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(20, 8), nn.Embedding(20, 8)
        self.mix = nn.Linear(8, 1) if mixed else None

    def forward(self, pairs: Tensor) -> Tensor:
        products = self.user(pairs[:, 0]) * self.item(pairs[:, 1])
        return self.mix(products)[:, 0] if self.mix else products.sum(1)


@pytest.mark.parametrize(
    ("mixed", "start", "outcome"),
    [
        (False, lambda weight: nn.init.constant_(weight, 0.1), Outcome.FAIL),
        (False, lambda weight: weight.data.copy_(torch.rand(20, 1).expand(20, 8)), Outcome.FAIL),
        (True, lambda weight: nn.init.ones_(weight), Outcome.PASS),
        (False, lambda weight: nn.init.normal_(weight, std=0.1), Outcome.SKIP),
    ],
)
def test_columns_of_tables_that_are_equal(mixed: bool, start: Callable[[Tensor], Any], outcome: Outcome) -> None:
    model = Rated(mixed)
    start(model.user.weight)
    start(model.item.weight)
    batches = [(torch.randint(20, (32, 2)), torch.randn(32)) for _ in range(3)]
    verdict = ask("weights-start-equal", trial_of(model, batches, lambda m, b: F.mse_loss(m(b[0]), b[1])))
    assert verdict.outcome is outcome, verdict.summary
    assert ("`user.weight`" in verdict.summary) is (outcome is Outcome.FAIL)


def test_of_two_tables_one_may_begin_at_zero() -> None:
    def started(rate: float = 0.1, **spread: float) -> Any:
        model = Pairs(spread.get("centre", 0.0), spread.get("context", 0.0))
        batches = [(torch.randint(20, (32, 1)), torch.randint(20, (32,))) for _ in range(3)]
        return trial_of(model, batches, cross_entropy, torch.optim.SGD(model.parameters(), lr=rate))

    says(ask("weights-start-equal", started()), Outcome.FAIL, "`centre.weight`", "zero as well, every gradient is 0")
    for one in ("centre", "context"):
        assert ask("weights-start-equal", started(**{one: 0.1})).outcome is not Outcome.FAIL
    assert ask("weights-start-equal", started(rate=0.0, centre=0.1)).outcome is not Outcome.FAIL


class Language(nn.Module):
    """A bag-of-tokens model with an embedding and a head of the same shape."""

    def __init__(self, tie: str = "") -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 16), nn.Linear(16, 20, bias=False)
        if tie == "data":
            self.head.weight.data = self.embed.weight.data
        elif tie == "copy":
            self.head.weight.data = self.embed.weight.data.clone()
        elif tie == "parameter":
            self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens).mean(1))


def language(tie: str) -> Any:
    batches = [(torch.randint(20, (32, 6)), torch.randint(20, (32,))) for _ in range(3)]
    return trial_of(Language(tie), batches, cross_entropy)


def test_weights_tied_by_their_data() -> None:
    verdict = ask("tied-weights-apart", language("data"))
    says(verdict, Outcome.FAIL, "`embed.weight` and `head.weight`", "over the same memory")
    says(ask("tied-weights-apart", language("copy")), Outcome.WARN, "starts as a copy")


@pytest.mark.parametrize("tie", ["parameter", ""])
def test_tied_and_untied_weights_pass(tie: str) -> None:
    says(ask("tied-weights-apart", language(tie)), Outcome.PASS)


class Coder(nn.Module):
    """An autoencoder whose decoder begins as its encoder, turned round."""

    def __init__(self, start: str) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 8), nn.Linear(8, 8)
        if start == "identity":
            nn.init.eye_(self.encoder.weight)
        if start != "own":
            turned = self.encoder.weight if start == "deep copy" else self.encoder.weight.T
            self.decoder.weight = nn.Parameter(turned.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(torch.tanh(self.encoder(x)))


@pytest.mark.parametrize(
    ("start", "outcome"),
    [
        ("turned", Outcome.WARN),
        ("own", Outcome.PASS),
        ("identity", Outcome.PASS),  # two layers that begin as nothing begin alike
        ("deep copy", Outcome.PASS),  # as the layers of nn.TransformerEncoder do
    ],
)
def test_a_decoder_that_begins_as_its_encoder(start: str, outcome: Outcome) -> None:
    trial = trial_of(Coder(start), [(torch.randn(32, 8),)] * 3, lambda m, b: nn.functional.mse_loss(m(b[0]), b[0]))
    assert ask("tied-weights-apart", trial).outcome is outcome


def frozen_table(values: Tensor) -> Any:
    model = Language()
    model.embed = nn.Embedding.from_pretrained(values)
    batches = [(torch.randint(len(values), (32, 6)), torch.randint(20, (32,))) for _ in range(3)]
    return trial_of(model, batches, cross_entropy, torch.optim.Adam(model.head.parameters()))


@pytest.mark.parametrize("spread", [1.0, 0.1])
def test_a_frozen_random_table(spread: float) -> None:
    says(ask("frozen-fresh-weights", frozen_table(spread * torch.randn(200, 16))), Outcome.WARN, "`embed.weight`")


def test_a_frozen_table_with_structure_passes() -> None:
    topics = torch.randn(4, 16)
    values = topics[torch.arange(200) % 4] * torch.rand(200, 1) + 0.1 * torch.randn(200, 16)
    says(ask("frozen-fresh-weights", frozen_table(values)), Outcome.PASS, "none looks freshly drawn")


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        ("drawn", Outcome.WARN),
        ("normal", Outcome.PASS),
        ("narrow", Outcome.PASS),  # within the bound of a new layer, but not up to it
        ("signs", Outcome.PASS),
        ("trained", Outcome.PASS),
    ],
)
def test_a_small_frozen_layer(made: str, outcome: Outcome) -> None:
    torch.manual_seed(0)
    model = mlp()
    trial = on_classes(model)
    for index, batch in enumerate(list(trial.train_batches()) * 10 if made == "trained" else ()):
        trial.train_step(batch, index)
    last: Any = model[-1]
    bound = last.in_features**-0.5
    with torch.no_grad():
        if made == "normal":
            last.weight.normal_(std=bound / 3).clamp_(-bound, bound)
        elif made == "narrow":
            last.weight.uniform_(-bound / 2, bound / 2)
        elif made == "signs":
            last.weight.uniform_(-bound, bound).sign_().mul_(bound)
    last.requires_grad_(False)
    says(ask("frozen-fresh-weights", on_classes(model)), outcome)


@pytest.mark.parametrize(
    ("moved", "outcome"),
    [(0.0, Outcome.WARN), (0.2, Outcome.PASS), (None, Outcome.SKIP)],
    ids=["drawn", "loaded", "on"],
)
def test_a_frozen_recurrent_layer(moved: float | None, outcome: Outcome) -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.gru(x)[0][:, -1])

    model = Reader().requires_grad_(True)
    for weight in model.gru.parameters() if moved is not None else ():
        weight.requires_grad_(False).add_(moved * torch.randn_like(weight))
    batches = [(torch.randn(32, 5, 8), torch.randint(4, (32,))) for _ in range(3)]
    told = ("`gru.weight_ih_l0` is frozen",) if outcome is Outcome.WARN else ()
    says(ask("frozen-fresh-weights", trial_of(model, batches, cross_entropy)), outcome, *told)


def test_most_units_dead() -> None:
    model = mlp()
    with torch.no_grad():
        model[0].bias[:28] = -50
    verdict = ask("dead-units", on_classes(model))
    says(verdict, Outcome.WARN, "28 of 32 units of `1 (ReLU)`")
    assert verdict.figures[0].kind == "bars"


class Stack(nn.Module):
    """Layers of one width, with one ReLU, by one line, or one layer again and again."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.relu, self.how = nn.ReLU(), how

    def forward(self, x: Tensor) -> Tensor:
        for index, layer in enumerate(self.layers):
            if self.how == "recurrent":
                x = F.relu(self.layers[1](x + index))
            else:
                x = self.relu(layer(x)) if self.how == "module" else F.relu(layer(x))
        return x


@pytest.mark.parametrize(
    ("how", "bias", "outcome", "words"),
    [
        ("module", -1e3, Outcome.WARN, "8 of 8 units of `0.relu (ReLU) behind 0.layers.1`"),
        ("line", -1e3, Outcome.WARN, "behind 0.layers.1` are 0"),
        ("module", 0.0, Outcome.PASS, ""),
        ("line", 0.0, Outcome.PASS, ""),
        ("recurrent", -2.0, Outcome.PASS, ""),  # dead at the first turn, and alive at the last
    ],
)
def test_one_relu_for_several_layers(how: str, bias: float, outcome: Outcome, words: str) -> None:
    model = nn.Sequential(Stack(how), nn.Linear(8, 5))
    layer: Any = model.get_submodule("0.layers.1")
    with torch.no_grad():
        if how == "recurrent":
            layer.weight.copy_(torch.eye(8))
        layer.bias.fill_(bias)
    says(ask("dead-units", on_classes(model)), outcome, *filter(None, [words]))


def test_one_relu_for_layers_of_several_widths() -> None:
    relu = nn.ReLU()
    model = nn.Sequential(nn.Linear(8, 48), relu, nn.Linear(48, 24), relu, nn.Linear(24, 5))
    verdict = ask("dead-units", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary
    nn.init.constant_(model[2].bias, -1e3)
    verdict = ask("dead-units", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is not Outcome.PASS
