"""Programs with one fault each: the probe meant for it fails, and says what and where."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, broken, classes, cross_entropy, fails, mlp, says, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome


@pytest.mark.parametrize(
    ("last", "name"), [(nn.Softmax(1), "softmax"), (nn.Sigmoid(), "sigmoid"), (nn.Softmax(0), "softmax")]
)
def test_squashed_before_cross_entropy(last: nn.Module, name: str) -> None:
    finding = fails("softmax-before-ce", broken(last)).findings[0]
    assert f"comes from {name}" in finding.message
    assert finding.numbers["plateau"] == pytest.approx(math.log(1 + 4 / math.e))
    assert finding.location.path.endswith("probe_programs.py")


def test_logits_clipped_by_a_relu() -> None:
    verdict = ask("softmax-before-ce", broken(nn.ReLU()))
    assert verdict.outcome is Outcome.WARN
    assert "comes from relu: no class can be voted below 0" in verdict.findings[0].message


def nll(last: nn.Module) -> Any:
    model = nn.Sequential(*mlp(), last, nn.LogSoftmax(1))
    return trial_of(model, classes(8), lambda model, batch: F.nll_loss(model(batch[0]), batch[1]))


@pytest.mark.parametrize(
    ("last", "outcome", "cost"),
    [
        (nn.Softmax(1), Outcome.FAIL, "cannot fall below 0.905"),
        (nn.Sigmoid(), Outcome.FAIL, "cannot fall below 0.905"),
        (nn.ReLU(), Outcome.WARN, "no class can be voted below 0"),
    ],
)
def test_scores_changed_before_a_log_softmax(last: nn.Module, outcome: Outcome, cost: str) -> None:
    says(ask("softmax-before-ce", nll(last)), outcome, "the scores that log_softmax turns into the input of nll", cost)


@pytest.mark.parametrize("last", [nn.Identity(), nn.Linear(5, 5), nn.LogSoftmax(1), nn.LeakyReLU()])
def test_scores_that_a_log_softmax_may_get(last: nn.Module) -> None:
    assert ask("softmax-before-ce", nll(last)).outcome is Outcome.SKIP


def test_one_class_is_always_certain() -> None:
    trial = trial_of(mlp(out=1), classes(8, classes=1), cross_entropy)
    assert "the loss is 0 and every gradient is 0" in fails("one-logit-ce", trial).findings[0].message
    shares = [(inputs, torch.rand(len(inputs), 1)) for inputs, _ in classes(8)]
    fails("one-logit-ce", trial_of(mlp(out=1), shares, cross_entropy))


def test_candidates_of_which_some_samples_have_one() -> None:
    """Scores for a list of candidates, whose length is the batch's own."""
    lists = [(torch.randn(4, count, 8), torch.zeros(4, dtype=torch.int64)) for count in (1, 3, 2)]
    model = Function(lambda layers, x: layers["score"](x).squeeze(-1), score=nn.Linear(8, 1))
    says(ask("one-logit-ce", trial_of(model, lists, cross_entropy)), Outcome.PASS, "chooses among 3 classes")


def test_probabilities_by_value_when_the_graph_hides_the_softmax() -> None:
    def forward(layers: Any, x: Tensor) -> Tensor:
        shares = layers["net"](x).exp()
        return shares / shares.sum(1, keepdim=True)

    trial = trial_of(Function(forward, net=mlp()), classes(8), cross_entropy)
    assert "on scrambled input too" in fails("softmax-before-ce", trial).findings[0].message


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda scores: scores.softmax(1), Outcome.WARN),
        (lambda scores: scores.log_softmax(1), Outcome.PASS),
        (lambda scores: scores, Outcome.PASS),
        (lambda scores: torch.full_like(scores, 0.2), Outcome.PASS),
    ],
    ids=("chances", "their logarithms", "logits", "no opinion"),
)
def test_what_enters_the_loss_of_validation_alone(change: Any, outcome: Outcome) -> None:
    model = mlp()

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"val_loss": float(F.cross_entropy(change(model(batch[0])), batch[1]))}

    verdict = ask("softmax-before-ce", trial_of(model, classes(8), cross_entropy, evaluate=evaluate))
    assert verdict.outcome is outcome, verdict.summary
    assert outcome is Outcome.PASS or "in validation the rows" in verdict.summary


def test_softmax_seen_through_a_view() -> None:
    def forward(layers: Any, x: Tensor) -> Tensor:
        return layers["net"](x).softmax(-1).unsqueeze(2).squeeze(2)

    fails("softmax-before-ce", trial_of(Function(forward, net=mlp()), classes(8), cross_entropy))


@pytest.mark.parametrize(("last", "what"), [(nn.Softmax(1), "probabilities"), (nn.Identity(), "logits")])
def test_nll_of_what_is_no_log_probability(last: nn.Module, what: str) -> None:
    model = nn.Sequential(*mlp(), last)
    trial = trial_of(model, classes(8), lambda model, batch: F.nll_loss(model(batch[0]), batch[1]))
    assert what in fails("nll-without-log-softmax", trial).findings[0].message


def test_log_softmax_over_the_batch() -> None:
    model = nn.Sequential(*mlp(), nn.LogSoftmax(0))
    trial = trial_of(model, classes(8), lambda model, batch: F.nll_loss(model(batch[0]), batch[1]))
    assert "another dimension" in fails("nll-without-log-softmax", trial).findings[0].message


ENDS = torch.tensor([9, 4, 7])


def ctc(said: Callable[[Tensor], Tensor]) -> Any:
    batches = [(torch.randn(3, 9, 8), torch.randint(1, 4, (3, 2))) for _ in range(3)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.ctc_loss(said(model(batch[0]).transpose(0, 1)), batch[1], ENDS, torch.tensor([2, 2, 2]))

    return trial_of(nn.Linear(8, 4), batches, loss)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (lambda scores: scores, "logits"),
        (lambda scores: scores.softmax(-1), "probabilities"),
        (lambda scores: scores.log_softmax(0), "another dimension"),
    ],
)
def test_a_sequence_loss_of_what_is_no_log_probability(said: Callable[[Tensor], Tensor], what: str) -> None:
    message = fails("nll-without-log-softmax", ctc(said)).findings[0].message
    assert message.startswith("the input of ctc_loss")
    assert what in message


@pytest.mark.parametrize(
    "said",
    [
        lambda scores: scores.log_softmax(-1),
        lambda scores: scores - scores.logsumexp(-1, keepdim=True),
        lambda scores: (torch.arange(9)[:, None] < ENDS)[:, :, None] * scores.log_softmax(-1),  # zeros behind the ends
    ],
)
def test_a_sequence_loss_of_log_probabilities(said: Callable[[Tensor], Tensor]) -> None:
    assert ask("nll-without-log-softmax", ctc(said)).outcome is Outcome.PASS


def test_sigmoid_before_bce_with_logits() -> None:
    batches = [(x, (x > 0).float()) for x, _ in classes(5)]
    model = nn.Sequential(*mlp(5, 5), nn.Sigmoid())
    trial = trial_of(model, batches, lambda m, batch: F.binary_cross_entropy_with_logits(m(batch[0]), batch[1]))
    fails("sigmoid-before-bcelogits", trial)


Score = Callable[[nn.Module, Tensor], Tensor]


def ranking(scores: nn.Module, x: Tensor) -> Tensor:
    return -F.logsigmoid(scores(x)).mean()


def one_against_the_other(scores: nn.Module, x: Tensor) -> Tensor:
    return F.softplus(-scores(x)).mean() + 0.5 * F.softplus(scores(x.flip(0))).mean()


def softly(model: nn.Module, x: Tensor) -> Tensor:
    return (F.softplus(model(x)) - 1).pow(2).mean()


@pytest.mark.parametrize("loss", [ranking, one_against_the_other])
@pytest.mark.parametrize("squashed", [True, False])
def test_sigmoid_before_a_cross_entropy_of_its_own(loss: Score, squashed: bool) -> None:
    model = nn.Sequential(*mlp(8, 1), *([nn.Sigmoid()] if squashed else []))
    verdict = ask("sigmoid-before-bcelogits", trial_of(model, classes(8), lambda m, batch: loss(m, batch[0])))
    assert verdict.outcome is (Outcome.FAIL if squashed else Outcome.PASS), verdict.reason or verdict.summary
    assert not squashed or "comes from sigmoid" in verdict.summary


def test_softplus_as_an_activation_is_no_loss() -> None:
    model = nn.Sequential(*mlp(8, 1), nn.Sigmoid())
    verdict = ask("sigmoid-before-bcelogits", trial_of(model, classes(8), lambda m, batch: softly(m, batch[0])))
    assert verdict.outcome is Outcome.SKIP, verdict.summary


def test_evaluation_in_training_mode_and_what_it_changes() -> None:
    model = nn.Sequential(nn.BatchNorm1d(8), *mlp(), nn.Dropout(0.2))

    def evaluate(batch: Any) -> dict[str, float]:
        return {"val_loss": float(cross_entropy(model, batch).detach())}

    verdict = fails("missing-eval-mode", trial_of(model, classes(8), cross_entropy, evaluate=evaluate))
    assert "`0 (BatchNorm1d)`, `6 (Dropout)`" in verdict.findings[0].message
    assert "running_mean" in verdict.findings[1].message


def test_functional_dropout_in_evaluation() -> None:
    model = Function(lambda layers, x: F.dropout(layers["net"](x), 0.5), net=mlp())
    verdict = fails("random-evaluation", trial_of(model, classes(8), cross_entropy))
    assert "F.dropout" in verdict.summary
    assert verdict.findings[0].location.path.endswith("test_faults.py")


class Fused(nn.Module):
    """Attention of four tokens, with dropout whatever the mode, or in training only."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.project, self.net, self.always = nn.Linear(2, 6), mlp(), always

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x.view(-1, 4, 2)).chunk(3, -1)
        dropped = 0.2 if self.always or self.training else 0.0
        out: Tensor = self.net(F.scaled_dot_product_attention(q, k, v, dropout_p=dropped).flatten(1))
        return out


def test_dropout_within_attention_in_evaluation() -> None:
    verdict = fails("random-evaluation", trial_of(Fused(always=True), classes(8), cross_entropy))
    assert "scaled_dot_product_attention drops values in evaluation: its `dropout_p` knows no mode" in verdict.summary
    sound = ask("random-evaluation", trial_of(Fused(always=False), classes(8), cross_entropy))
    assert sound.outcome is Outcome.PASS


def test_a_training_step_in_evaluation_mode() -> None:
    model = nn.Sequential(*mlp(), nn.Dropout(0.2))
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        model.eval()
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    fails("train-not-restored", trial_of(model, classes(8), cross_entropy, optimizer, step=step))


@pytest.mark.parametrize(
    "mix",
    [lambda x: x - x.mean(0), lambda x: x.softmax(0), lambda x: x + x.roll(1, 0)],
    ids=("mean", "softmax", "roll"),
)
def test_samples_that_meet(mix: Any) -> None:
    model = Function(lambda layers, x: layers["net"](mix(x)), net=mlp())
    verdict = fails("batch-mixing", trial_of(model, classes(8), cross_entropy))
    assert "layers.net.0 (Linear)" in verdict.summary


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


def test_a_learning_rate_far_too_low_or_high() -> None:
    for rate, word in ((1e-7, "does not learn"), (1e4, "rises")):
        model = mlp()
        trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=rate))
        summary = fails("cannot-overfit-one-batch", trial).summary
        assert word in summary
        assert "model, loss and data are sound" in summary


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_broadcast_loss() -> None:
    batches = [(torch.randn(32, 8), torch.randn(32)) for _ in range(2)]
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
    fails("cannot-overfit-one-batch", trial)


def test_nan_in_one_row() -> None:
    batches = classes(8)
    batches[2][0][5, 3] = float("nan")
    verdict = fails("non-finite-batch", trial_of(mlp(), batches, cross_entropy))
    assert "batch 2, row 5, feature [3]" in verdict.summary


def test_the_gallery_stays_open_and_shows_pictures() -> None:
    verdict = ask("batch-not-reviewed", SOUND["lenet"]())
    assert verdict.outcome is Outcome.PENDING
    assert [figure.kind for figure in verdict.figures] == ["images", "table", "bars"]
    assert len(verdict.figures[0].data["tiles"]) == 16
