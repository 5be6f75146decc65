"""Whether a signal gets through a fresh model: dead and saturated units, depth, activations, dropout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, on_classes, says
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


def deep(depth: int, bend: type[nn.Module], width: int = 32) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(8, width), bend()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), bend()]
    return nn.Sequential(*layers, nn.Linear(width, 5))


@pytest.mark.parametrize("dead", [0, 10])
def test_some_dead_units_pass(dead: int) -> None:
    model = mlp()
    with torch.no_grad():
        model[0].bias[:dead] = -50
    says(ask("dead-units", on_classes(model)), Outcome.PASS)


def test_dead_units_of_a_function_are_named_by_their_line() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 5)
            nn.init.constant_(self.first.bias, -50)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(F.relu(self.first(x)))

    verdict = ask("dead-units", on_classes(Net()))
    says(verdict, Outcome.WARN, "32 of 32")
    assert verdict.findings[0].location.path.endswith("test_signal_probes.py")


@pytest.mark.parametrize(("bend", "word"), [(nn.Tanh, "beyond ±0.99"), (nn.Sigmoid, "within 0.005")])
def test_a_layer_that_starts_saturated(bend: type[nn.Module], word: str) -> None:
    model = deep(1, bend)
    nn.init.normal_(model[0].weight, std=20.0)
    says(ask("saturated-activations", on_classes(model)), Outcome.WARN, word)
    says(ask("saturated-activations", on_classes(deep(1, bend))), Outcome.PASS)


def test_a_signal_that_twelve_sigmoids_swallow() -> None:
    verdict = ask("signal-fades-with-depth", on_classes(deep(12, nn.Sigmoid), batches=3))
    says(verdict, Outcome.FAIL, "samples differ by")
    assert any("gradient vanishes" in finding.message for finding in verdict.findings)


@pytest.mark.parametrize(("every", "outcome"), [(True, Outcome.WARN), (False, Outcome.PASS)])
def test_weights_that_all_begin_next_to_zero(every: bool, outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5))
    for layer in (model[0], model[2], model[4]) if every else (model[4],):
        nn.init.normal_(layer.weight, std=1e-5)
    verdict = ask("signal-fades-with-depth", on_classes(model))
    assert verdict.outcome is outcome, verdict.summary
    assert ("the weights of all 3 layers begin next to zero" in verdict.summary) is every


def tiny(model: nn.Sequential, *layers: int) -> nn.Sequential:
    for layer in layers:
        nn.init.normal_(model[layer].weight, std=1e-5)  # type: ignore[arg-type]
        nn.init.zeros_(model[layer].bias)  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize("normed", [False, True])
def test_two_layers_that_begin_next_to_zero(normed: bool) -> None:
    after = [nn.LayerNorm(32, eps=1e-12)] if normed else []
    model = nn.Sequential(nn.Linear(8, 32), *after, nn.ReLU(), nn.Linear(32, 32), *after, nn.ReLU(), nn.Linear(32, 5))
    verdict = ask("signal-fades-with-depth", on_classes(tiny(model, 0, 3 if normed else 2)))
    if normed:  # what a norm scales up again does not fade
        says(verdict, Outcome.PASS)
    else:
        says(verdict, Outcome.WARN, "the weights of 2 of 3 layers begin next to zero")


class Branches(nn.Module):
    """Residual branches whose last layers begin next to zero, so that the model begins as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.outer = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.first, self.head = nn.Linear(8, 32), nn.Linear(32, 5)
        for layer in self.outer:
            nn.init.normal_(layer.weight, std=1e-5)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for inner, outer in zip(self.inner, self.outer, strict=True):
            x = x + outer(inner(x).relu())
        return self.head(x)


def test_branches_may_begin_next_to_zero() -> None:
    assert ask("signal-fades-with-depth", on_classes(Branches())).outcome is Outcome.PASS


@pytest.mark.parametrize("bend", [nn.ReLU, nn.Tanh, nn.GELU])
def test_eight_layers_carry_the_signal(bend: type[nn.Module]) -> None:
    assert ask("signal-fades-with-depth", on_classes(deep(6, bend), batches=3)).outcome is Outcome.PASS


class SmallAttention(nn.Module):
    """Queries and keys of nearly equal weights get next to no gradient at first, as in BERT's scheme."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(8, 16))
        for name in ("query", "key", "value", "out", "up", "down"):
            self.add_module(name, nn.Linear(16, 16))
        self.head = nn.Linear(16, 5)
        for layer in (self.query, self.key):
            nn.init.normal_(layer.weight, std=1e-8)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x[:, :, None] * self.embedding
        share = (self.query(tokens) @ self.key(tokens).transpose(1, 2)).softmax(2)
        tokens = tokens + self.out(share @ self.value(tokens))
        return self.head((tokens + self.down(F.gelu(self.up(tokens)))).mean(1))


def test_queries_and_keys_may_start_with_no_gradient() -> None:
    verdict = ask("signal-fades-with-depth", on_classes(SmallAttention(), batches=3))
    assert verdict.outcome is Outcome.PASS, verdict.summary


class Residual(nn.Module):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 5)
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(20))
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = self.gain * x + block(F.relu(x))
        return self.last(x)


def test_residual_blocks_that_double() -> None:
    says(ask("signal-explodes", on_classes(Residual(2.0))), Outcome.WARN, "times that of `first (Linear)`")
    says(ask("signal-explodes", on_classes(Residual(1.0))), Outcome.PASS)


class Rounds(nn.Module):
    """One layer that is fed its own output, again and again."""

    def __init__(self, std: float, bounded: bool = False) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 5)
        nn.init.normal_(self.again.weight, std=std)
        self.bounded = bounded

    def forward(self, x: Tensor) -> Tensor:
        state = self.first(x)
        for _ in range(12):
            state = state + self.again(state)
            state = torch.tanh(state) if self.bounded else state
        return self.last(state)


def test_one_layer_that_makes_more_of_its_own_output_every_round() -> None:
    verdict = ask("signal-explodes", on_classes(Rounds(0.6)))
    says(verdict, Outcome.WARN, "`again (Linear)` runs 12 times in a pass, and the output of its last is")
    says(ask("signal-explodes", on_classes(Rounds(0.6, bounded=True))), Outcome.PASS)
    says(ask("signal-explodes", on_classes(Rounds(0.05))), Outcome.PASS)


class Shared(nn.Module):
    """One layer for several inputs, the largest last: nothing is fed back."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(sum(self.layer(x * scale) for scale in (1.0, 1e4, 1.0, 1e4)))

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(8, 32), nn.Linear(32, 5)


def test_one_layer_on_inputs_of_several_scales() -> None:
    assert ask("signal-explodes", on_classes(Shared())).outcome is not Outcome.WARN


class Attending(nn.Module):
    """Eight numbers as tokens that look at each other, or at what a mask leaves of them."""

    def __init__(self, scale: float, std: float, keys: int = 8, filled: float = -1e4) -> None:
        super().__init__()
        self.scale, self.keys, self.filled = scale, keys, filled
        self.lift, self.norm = nn.Linear(1, 48), nn.LayerNorm(48)
        self.q, self.k, self.v = (nn.Linear(48, 48) for _ in range(3))
        self.place, self.head = nn.Parameter(torch.randn(8, 48)), nn.Linear(48, 5)
        for layer in (self.q, self.k):
            nn.init.normal_(layer.weight, std=std)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.lift(x[:, :, None]) + self.place)
        scores = self.q(h) @ self.k(h).transpose(1, 2) * self.scale
        scores = scores.masked_fill(torch.arange(8) >= self.keys, self.filled)
        return self.head((scores.softmax(-1) @ self.v(h)).mean(1))  # type: ignore[no-any-return]


def test_attention_on_one_key_alone() -> None:
    verdict = ask("saturated-activations", on_classes(Attending(48**0.5, 1.0)))
    says(verdict, Outcome.WARN, "give one of several keys", "hardly any gradient passes through the softmax")


@pytest.mark.parametrize("filled", [-1e4, float("-inf")])
def test_attention_over_several_keys_or_with_one_to_choose_from(filled: float) -> None:
    assert ask("saturated-activations", on_classes(Attending(48**-0.5, 1 / 7, filled=filled))).outcome is Outcome.PASS
    alone = Attending(48**-0.5, 1.0, keys=1, filled=filled)
    assert ask("saturated-activations", on_classes(alone)).outcome is Outcome.SKIP


@pytest.mark.parametrize(("rate", "outcome"), [(0.95, Outcome.WARN), (0.5, Outcome.PASS)])
def test_dropout_rates(rate: float, outcome: Outcome) -> None:
    says(ask("dropout-too-strong", on_classes(nn.Sequential(*mlp(), nn.Dropout(rate)))), outcome)


@pytest.mark.parametrize(("std", "outcome"), [(1e-7, Outcome.WARN), (3e-3, Outcome.PASS)])
def test_weights_that_begin_next_to_zero(std: float, outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))
    for layer in (model[0], model[2]):
        nn.init.normal_(layer.weight, std=std)
    assert ask("signal-fades-with-depth", on_classes(model, batches=3)).outcome is outcome


def test_a_last_layer_that_begins_at_zero() -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))
    nn.init.zeros_(model[2].weight)
    assert ask("signal-fades-with-depth", on_classes(model, batches=3)).outcome is not Outcome.WARN


@pytest.mark.parametrize(("bend", "depth", "outcome"), [(nn.GELU, 4, Outcome.PASS), (nn.Sigmoid, 12, Outcome.FAIL)])
def test_a_last_layer_of_zeros_gives_every_sample_its_bias(bend: type[nn.Module], depth: int, outcome: Outcome) -> None:
    """By choice: but what was lost before it is lost."""
    model = deep(depth, bend)
    nn.init.zeros_(model[-1].weight)
    assert ask("signal-fades-with-depth", on_classes(model, batches=3)).outcome is outcome


class Stacked(nn.Module):
    def __init__(self, std: float) -> None:
        super().__init__()
        self.cell, self.out = nn.RNN(1, 16, num_layers=6, batch_first=True), nn.Linear(16, 5)
        for weight in self.cell.parameters():
            nn.init.normal_(weight, std=std)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cell(x.unsqueeze(2))[0][:, -1])


@pytest.mark.parametrize(("std", "outcome"), [(0.01, Outcome.WARN), (0.25, Outcome.PASS)])
def test_recurrent_layers_in_one_module(std: float, outcome: Outcome) -> None:
    verdict = ask("signal-fades-with-depth", on_classes(Stacked(std)))
    assert verdict.outcome in (outcome, Outcome.SKIP)
    assert (verdict.outcome is Outcome.WARN) is ("layer 0 of cell" in verdict.summary)


class Coded(nn.Module):
    """One of a few codes for each sample, at first the same for all; the encoder gets the decoder's gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.codes = nn.Embedding(8, 4)
        self.decode = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 5))
        nn.init.normal_(self.codes.weight, std=50.0)
        nn.init.zeros_(self.codes.weight[0].data)

    def forward(self, x: Tensor) -> Tensor:
        own = self.encode(x)
        code = self.codes(torch.cdist(own, self.codes.weight).argmin(1))
        return self.decode(own + (code - own).detach())


def test_codes_that_are_all_one_at_first() -> None:
    assert ask("signal-fades-with-depth", on_classes(Coded())).outcome is Outcome.PASS
