"""Samples of one batch that meet, and inputs that a model ignores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, fails, mlp, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


@pytest.mark.parametrize(
    "mix",
    [lambda x: x - x.mean(0), lambda x: x.softmax(0), lambda x: x + x.roll(1, 0)],
    ids=("mean", "softmax", "roll"),
)
def test_samples_that_meet(mix: Any) -> None:
    model = Function(lambda layers, x: layers["net"](mix(x)), net=mlp())
    verdict = fails("batch-mixing", trial_of(model, classes(8), cross_entropy))
    assert "layers.net.0 (Linear)" in verdict.summary


class Summary(nn.Module):
    """Attention whose first place is a learnt token, from which the answer is read."""

    def __init__(self, batch_first: bool, deaf: bool = False) -> None:
        super().__init__()
        self.token, self.deaf = nn.Parameter(torch.randn(1, 1, 8)), deaf
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=batch_first), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.cat([self.token.expand(len(x), -1, -1), x.unflatten(1, (2, 4)).repeat(1, 1, 2)], 1)
        answer: Tensor = self.head(self.attention(places, places, places)[0][:, 0] * (not self.deaf))
        return answer


def test_attention_over_the_batch_that_leaves_nothing_of_a_sample() -> None:
    verdict = fails("batch-mixing", trial_of(Summary(batch_first=False), classes(8), cross_entropy))
    assert "meet in attention (MultiheadAttention)" in verdict.summary
    assert "batch_first=True" in verdict.findings[0].help


@pytest.mark.parametrize("deaf", [False, True])
def test_attention_within_a_sample(deaf: bool) -> None:
    says(ask("batch-mixing", trial_of(Summary(True, deaf), classes(8), cross_entropy)), Outcome.PASS)


class Series(nn.Module):
    """A recurrent layer that takes (time, batch, features), given rows one behind the other as a batch of one."""

    def __init__(self) -> None:
        super().__init__()
        self.walk, self.net = nn.LSTM(8, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.net(self.walk(x.unsqueeze(1))[0]).squeeze(1)
        return answers


def test_rows_that_may_be_the_steps_of_one_series() -> None:
    asked = ask("batch-mixing", trial_of(Series(), [(x, y) for x, y in classes(8)], cross_entropy))
    says(asked, Outcome.INCONCLUSIVE, "gets a batch of one: the rows may be its time steps")


def test_samples_of_a_loader_are_no_steps_of_a_series() -> None:
    x, y = (torch.cat(parts) for parts in zip(*classes(8), strict=True))
    trial = trial_on(TensorDataset(x, y), model=Series(), loss=cross_entropy)
    assert "NaN in row 0 reaches" in fails("batch-mixing", trial).summary


class Sorting(nn.Module):
    """A sentence VAE: sorts its rows by length for packing, and gives the answers back in the order of the batch."""

    def __init__(self, restores: bool, mixes: bool) -> None:
        super().__init__()
        self.code, self.net = nn.Linear(8, 8), nn.Linear(8, 5)
        self.restores, self.mixes = restores, mixes

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        order = lengths.argsort(descending=True)
        code: Tensor = self.code(x[order])
        if self.mixes:
            code = code - 0.1 * code.mean(0)
        answers = self.net((code + torch.randn_like(code)).tanh())
        return answers[order.argsort()] if self.restores else answers, code


@pytest.mark.parametrize(
    ("restores", "mixes", "outcome"),
    [(True, False, Outcome.PASS), (False, False, Outcome.FAIL), (True, True, Outcome.FAIL)],
    ids=("restored", "left sorted", "mixed"),
)
def test_rows_that_are_sorted_and_noised(restores: bool, mixes: bool, outcome: Outcome) -> None:
    batches = [(x, (100 * x[:, 0]).long(), y) for x, y in classes(8)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        answers, code = model(batch[0], batch[1])
        return F.cross_entropy(answers, batch[2]) + 0.01 * code.pow(2).sum(1).mean()

    verdict = ask("batch-mixing", trial_of(Sorting(restores, mixes), batches, loss))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


TURNED = torch.tensor([row for row in reversed(range(32)) if row != 8])


SORTED = torch.cat([TURNED[:8], torch.tensor([8]), TURNED[8:]])


HALF = torch.cat([torch.arange(16), torch.arange(16, 32).flip(0)])


PAIRED: dict[str, tuple[Any, Outcome]] = {
    "rolled": (lambda out, y: F.cross_entropy(out, y.roll(1)), Outcome.FAIL),
    "flipped": (lambda out, y: F.cross_entropy(out.flip(0), y), Outcome.FAIL),
    "in another order, sample 8 where it was": (lambda out, y: F.cross_entropy(out[SORTED], y), Outcome.FAIL),
    "half of them in another order": (lambda out, y: F.cross_entropy(out[HALF], y), Outcome.PASS),
    "its own": (lambda out, y: F.cross_entropy(out, y), Outcome.PASS),
    "both flipped": (lambda out, y: F.cross_entropy(out.flip(0), y.flip(0)), Outcome.PASS),
    "mixed with another": (
        lambda out, y: 0.7 * F.cross_entropy(out, y) + 0.3 * F.cross_entropy(out, y.roll(1)),
        Outcome.PASS,
    ),
    "weighted by class": (lambda out, y: F.cross_entropy(out, y, weight=torch.arange(1.0, 6.0)), Outcome.PASS),
    "of the other half": (lambda out, y: F.cross_entropy(out[:16], y[:16]), Outcome.PASS),
}


@pytest.mark.parametrize("how", PAIRED)
def test_each_prediction_is_compared_with_its_own_target(how: str) -> None:
    loss, outcome = PAIRED[how]
    verdict = ask("batch-mixing", trial_of(mlp(), classes(8), lambda model, batch: loss(model(batch[0]), batch[1])))
    assert verdict.outcome is outcome, verdict
    assert ("the loss compares predictions with other samples' targets" in verdict.summary) is (outcome is Outcome.FAIL)


@pytest.mark.parametrize(("order", "outcome"), [((0,), Outcome.FAIL), ((), Outcome.PASS)])
def test_a_loss_whose_gradient_is_a_sign_says_whose_target_it_gets(order: tuple[int, ...], outcome: Outcome) -> None:
    model = nn.Linear(8, 1)
    batches = [(x, 20 * x.sum(1) + torch.linspace(-3, 3, len(x))) for x, _ in classes(8)]
    trial = trial_of(model, batches, lambda net, batch: F.l1_loss(net(batch[0])[:, 0], batch[1].flip(order)))
    says(ask("batch-mixing", trial), outcome)


def test_a_tensor_that_may_not_be_exchanged_hides_no_other() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, order, y = batch
        if not bool((order.diff() > 0).all()):
            raise ValueError("not in order")
        return F.cross_entropy(model(x), y.roll(1))

    batches = [(x, torch.arange(len(x)), y) for x, y in classes(8)]
    assert "samples' targets: with another `batch[2]`" in fails("batch-mixing", trial_of(mlp(), batches, loss)).summary


@pytest.mark.parametrize(("mixed", "outcome"), [(True, Outcome.FAIL), (False, Outcome.PASS)])
def test_a_number_beside_the_batch_is_no_reason_not_to_look(mixed: bool, outcome: Outcome) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, inputs: Tensor, scale: Tensor) -> Tensor:
            scaled: Tensor = self.net(inputs * scale)
            return scaled - scaled.mean(0) if mixed else scaled

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0], scale=torch.tensor(0.5)), batch[1])

    for rule in ("batch-mixing", "input-ignored"):
        verdict = ask(rule, trial_of(Scaled(), classes(8), loss))
        assert verdict.outcome is (outcome if rule == "batch-mixing" else Outcome.PASS), verdict.reason


class Square(nn.Module):
    """As many places, or neighbours, as there are samples, and a scale for each sample beside them."""

    def __init__(self, graph: bool, mixed: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(1 if graph else 32, 32), nn.Linear(32, 5)
        self.graph, self.mixed = graph, mixed

    def forward(self, square: Tensor, scale: Tensor) -> Tensor:
        seen: Tensor = self.first(square @ scale if self.graph else square * scale)
        answer: Tensor = self.last(seen - seen.mean(0) if self.mixed else seen)
        return answer


def beside_a_square(graph: bool, mixed: bool) -> Verdict:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0], batch[1]), batch[2])

    batches = [(x, torch.rand(32, 1) + 0.5, y) for x, y in classes(32, size=32)]
    return ask("batch-mixing", trial_of(Square(graph, mixed), batches, loss))


def test_a_square_of_rows_is_a_graph_only_where_a_row_less_does_not_do() -> None:
    assert beside_a_square(graph=True, mixed=False).outcome is Outcome.INCONCLUSIVE
    assert beside_a_square(graph=False, mixed=False).outcome is Outcome.PASS
    assert beside_a_square(graph=False, mixed=True).outcome is Outcome.FAIL


def test_rows_that_mix_where_the_first_is_nothing() -> None:
    """After the transposition row 0 is what unit 0 says of every sample, and that unit is dead."""

    def forward(layers: Any, x: Tensor) -> Tensor:
        seen = F.relu(layers["first"](x))
        return layers["last"](seen.view(-1, len(x)).T.reshape(len(x), -1))

    model = Function(forward, first=nn.Linear(8, 32), last=nn.Linear(32, 5))
    nn.init.constant_(model.layers["first"].bias[:1].data, -50.0)
    verdict = fails("batch-mixing", trial_of(model, classes(8, size=32), cross_entropy))
    assert "layers.last" in verdict.findings[0].message


@pytest.mark.parametrize("used", [True, False])
def test_an_answer_made_of_all_samples_alike_is_no_input_ignored(used: bool) -> None:
    """Samples that change places leave it as it is; which samples there are does not."""

    def forward(layers: Any, x: Tensor) -> Tensor:
        most = layers["first"](x).amax(0) * torch.linspace(0.5, 1, len(x)).unsqueeze(1)
        return layers["last"](most if used else 0 * most)

    model = Function(forward, first=nn.Linear(8, 32), last=nn.Linear(32, 5))
    trial = trial_of(model, classes(8), cross_entropy)
    assert ask("input-ignored", trial).outcome is (Outcome.PASS if used else Outcome.FAIL)
    assert ask("batch-mixing", trial).outcome is (Outcome.FAIL if used else Outcome.PASS)


class Spiking(nn.Module):
    """Says nothing until what it was given has added up; `deaf` to what that was."""

    def __init__(self, deaf: bool) -> None:
        super().__init__()
        self.body, self.deaf = nn.Linear(8, 5), deaf
        self.charge: Tensor | float = 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.charge = self.charge + 0.05 * self.body(0 * x if self.deaf else x)
        return self.charge.sigmoid() * (self.charge.abs() > 0.3)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_model_that_adds_up_what_it_is_given_is_not_judged_by_one_call(deaf: bool) -> None:
    torch.manual_seed(0)
    model = Spiking(deaf)

    def spikes(net: nn.Module, batch: Any) -> Tensor:
        rate = torch.stack([net(batch[0]) for _ in range(40)]).mean(0)
        model.charge = 0.0
        return F.mse_loss(rate, F.one_hot(batch[1], 5).float())

    verdict = ask("input-ignored", trial_of(model, classes(8), spikes))
    says(verdict, Outcome.INCONCLUSIVE, "keeps something from call to call")


@pytest.mark.parametrize("calls", [1, 3])
def test_a_model_that_is_called_often_may_ignore_its_input(calls: int) -> None:
    model = Function(lambda layers, x: layers["net"](0 * x), net=mlp())
    often = trial_of(model, classes(8), lambda m, b: F.cross_entropy(sum(m(b[0]) for _ in range(calls)), b[1]))
    fails("input-ignored", often)


def test_an_input_that_is_multiplied_by_zero() -> None:
    model = Function(lambda layers, x: layers["net"](0 * x), net=mlp())
    trial = trial_of(model, classes(8), cross_entropy)
    fails("input-ignored", trial)
    verdict = fails("cannot-overfit-one-batch", trial)
    assert "no more than it does without its input" in verdict.summary


TABLES: dict[str, tuple[Any, Outcome]] = {
    "similarities": (lambda h: F.normalize(h, dim=1) @ F.normalize(h, dim=1).T, Outcome.PASS),
    "distances": (lambda h: torch.cdist(h, h), Outcome.PASS),
    "similarities of what was normalised over the batch": (lambda h: F.normalize(h, dim=0) @ h.T, Outcome.FAIL),
    "a column meets a row": (lambda h: h[:, :1] - h[:, 1], Outcome.FAIL),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_number_for_every_pair_of_samples(name: str) -> None:
    """Two samples have theirs whoever else is there, and with the samples its rows and columns change places."""
    table, outcome = TABLES[name]
    model = Function(lambda layers, x: table(layers["body"](x)), body=mlp(8, 6))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0]), torch.arange(len(batch[0])))

    says(ask("batch-mixing", trial_of(model, classes(8), loss)), outcome)


def derived(model: nn.Module, batch: Any) -> Tensor:
    """The loss asks for the derivative by the points, as that of a differential equation."""
    points = batch[0].clone().requires_grad_()
    value = model(points)
    (slope,) = torch.autograd.grad(value.sum(), points, create_graph=True)
    return (slope.sum(1) + value[:, 0]).square().mean()


def test_points_that_a_loss_takes_derivatives_by_are_data() -> None:
    says(ask("batch-mixing", trial_of(mlp(), classes(8), derived)), Outcome.PASS)
    mixing = Function(lambda layers, x: layers["net"](x - x.mean(0)), net=mlp())
    says(ask("batch-mixing", trial_of(mixing, classes(8), derived)), Outcome.FAIL, "layers.net")


def test_a_model_that_takes_derivatives_itself_is_not_called_without_gradients() -> None:
    def force(layers: Any, x: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(layers["net"](x).sum(), x, create_graph=True)
        return slope

    def loss(model: nn.Module, batch: Any) -> Tensor:
        value: Tensor = model(batch[0].clone().requires_grad_()).square().mean()
        return value

    assert ask("batch-mixing", trial_of(Function(force, net=mlp()), classes(8), loss)).outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("rolls", "outcome"), [((1,), Outcome.FAIL), ((0,), Outcome.PASS), ((0, 1), Outcome.PASS), ((), Outcome.PASS)]
)
def test_an_autoencoder_is_asked_for_its_own_input(rolls: tuple[int, ...], outcome: Outcome) -> None:
    """Another sample's beside its own is a negative example."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        (x,) = batch
        return sum(F.mse_loss(model(x), x.roll(roll, 0)) for roll in rolls) + model(x).square().mean()

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    batches = [(torch.randn(32, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(4)]
    says(ask("batch-mixing", trial_of(model, batches, loss)), outcome, *(["is `batch[0]` of"] if rolls == (1,) else []))


class OfDict(nn.Module):
    """Given all of a batch, of which it reads what it names."""

    def __init__(self, *read: str) -> None:
        super().__init__()
        self.read, self.head = read, nn.Linear(4 * len(read), 1)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.head(torch.cat([batch[name] for name in self.read], 1))[:, 0]


def written_error(model: nn.Module, batch: Any) -> Tensor:
    return (model(batch) - batch["wanted"]).pow(2).mean()


def torchs_error(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch), batch["wanted"])


@pytest.mark.parametrize("loss", [written_error, torchs_error])
def test_a_target_in_the_batch_that_the_model_is_given_is_no_input(loss: Any) -> None:
    batches = [{"one": torch.randn(16, 4), "two": torch.randn(16, 4), "wanted": torch.randn(16)} for _ in range(4)]

    def shuffled(*read: str) -> Trial:
        trial = trial_of(OfDict(*read), batches, loss)
        trial.train_batches = lambda: (batches[place] for place in torch.randperm(4).tolist())
        return trial

    assert ask("input-ignored", shuffled("one", "two")).outcome is Outcome.PASS
    says(ask("input-ignored", shuffled("one")), Outcome.WARN, "ignores `batch.two`: exchanging it")
