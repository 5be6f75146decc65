"""Programs with one fault each: the probe meant for it fails, and says what and where."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import SOUND, ask, broken, classes, cross_entropy, examined, mlp, trial_of
from torch import Tensor, nn

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def fails(rule: str, trial: Trial) -> Verdict:
    verdict = ask(rule, trial)
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary
    assert verdict.findings
    return verdict


class Function(nn.Module):
    """A model whose forward is a function of its layers and its input."""

    def __init__(self, forward: Any, **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self.layers, x)


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


def test_probabilities_by_value_when_the_graph_hides_the_softmax() -> None:
    def forward(layers: Any, x: Tensor) -> Tensor:
        shares = layers["net"](x).exp()
        return shares / shares.sum(1, keepdim=True)

    trial = trial_of(Function(forward, net=mlp()), classes(8), cross_entropy)
    assert "on scrambled input too" in fails("softmax-before-ce", trial).findings[0].message


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


def test_sigmoid_before_bce_with_logits() -> None:
    batches = [(x, (x > 0).float()) for x, _ in classes(5)]
    model = nn.Sequential(*mlp(5, 5), nn.Sigmoid())
    trial = trial_of(model, batches, lambda m, batch: F.binary_cross_entropy_with_logits(m(batch[0]), batch[1]))
    fails("sigmoid-before-bcelogits", trial)


def own_loop(*order: str) -> Trial:
    """A loop of `forward`, `zero`, `backward` and `step` in the order given."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch)
        for word in order:
            {"zero": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}[word]()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


def test_gradients_never_cleared() -> None:
    verdict = fails("missing-zero-grad", own_loop("backward", "step"))
    assert "2 of 3 updates" in verdict.findings[0].message
    assert verdict.findings[0].location.symbol == "own_loop.step"


def test_gradients_cleared_too_early() -> None:
    trial = own_loop("backward", "zero", "step")
    fails("zero-grad-before-step", trial)
    assert "cleared before the step" in fails("parameter-never-changes", trial).findings[0].message
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS


@pytest.mark.parametrize("order", [("zero", "backward", "step"), ("backward", "step", "zero")])
def test_sound_orders_pass(order: tuple[str, ...]) -> None:
    for rule in ("missing-zero-grad", "zero-grad-before-step", "parameter-never-changes"):
        assert ask(rule, own_loop(*order)).outcome is Outcome.PASS


def accumulating(every: int, clear_always: bool) -> Trial:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        if clear_always or index % every == 0:
            optimizer.zero_grad()
        loss = cross_entropy(model, batch) / every
        loss.backward()
        if index % every == every - 1:
            optimizer.step()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


def test_accumulated_gradients_that_every_batch_clears() -> None:
    verdict = fails("accumulation-destroyed", accumulating(4, clear_always=True))
    assert "`optimizer` steps 3 times in 12: each update has the gradient of its last batch alone" in verdict.summary
    assert ask("accumulation-destroyed", accumulating(4, clear_always=False)).outcome is Outcome.PASS
    assert ask("accumulation-destroyed", accumulating(1, clear_always=True)).outcome is Outcome.SKIP


def test_steps_that_a_scaler_leaves_out_are_no_lost_batches() -> None:
    trial = accumulating(4, clear_always=True)
    inner = trial.train_step

    def overflowing(batch: Any, index: int) -> Any:
        return inner((batch[0] * (float("inf") if index % 4 == 0 else 1.0), batch[1]), index)

    trial.train_step = overflowing
    assert ask("accumulation-destroyed", trial).outcome is Outcome.INCONCLUSIVE


def test_a_step_that_raises_is_told_once() -> None:
    trial = accumulating(4, clear_always=False)
    sound = trial.train_step

    def step(batch: Any, index: int) -> Any:
        if index == 6:
            raise ValueError("sample 17 is torn")
        return sound(batch, index)

    trial.train_step = step
    results = examined(trial, "later-step-breaks", "missing-zero-grad")
    assert results["later-step-breaks"].outcome is Outcome.FAIL
    assert results["missing-zero-grad"].outcome is Outcome.SKIP
    told = "training step 7 raises ValueError: sample 17 is torn: see later-step-breaks"
    assert results["missing-zero-grad"].reason == told


class Tuned(nn.Module):
    """A frozen backbone with batch norm and a head that is trained."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU()).requires_grad_(False)
        self.head = nn.Linear(16, 5)
        self.keeps = keeps

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        if self.keeps:
            self.backbone.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def test_running_statistics_of_a_frozen_norm_that_move() -> None:
    verdict = ask("frozen-norm-drifts", trial_of(Tuned(keeps=False), classes(8), cross_entropy))
    assert verdict.outcome is Outcome.WARN
    assert "`backbone.1` are frozen, and their running statistics move" in verdict.summary
    assert ask("frozen-norm-drifts", trial_of(Tuned(keeps=True), classes(8), cross_entropy)).outcome is Outcome.PASS
    trained = trial_of(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 5)), classes(8), cross_entropy)
    assert ask("frozen-norm-drifts", trained).outcome is Outcome.SKIP


def test_an_optimizer_that_never_steps() -> None:
    assert "no optimizer stepped in 64" in fails("parameter-never-changes", own_loop("zero", "backward")).summary


def test_a_learning_rate_of_zero() -> None:
    model = mlp()
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=0.0))
    assert "learning rate is 0" in fails("parameter-never-changes", trial).summary


def test_a_bias_that_normalisation_subtracts_again_has_no_gradient_but_rounding() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    nn.init.ones_(model[0].bias)
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=0.01))
    verdict = ask("parameter-never-changes", trial)
    assert verdict.outcome is Outcome.PASS, verdict.summary
    assert "all 5 parameters" in verdict.summary


def test_updates_below_the_digits_of_a_weight_are_left_to_the_learning_rate() -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 5))
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=1e-7))
    verdict = ask("parameter-never-changes", trial)
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.summary
    assert "`1.weight` are smaller than their rounding at learning rate 1e-07" in verdict.reason


def test_updates_that_half_precision_weights_lose() -> None:
    model = mlp().to(torch.bfloat16)
    batches = [(x.to(torch.bfloat16), y) for x, y in classes(8)]
    trial = trial_of(model, batches, cross_entropy, torch.optim.SGD(model.parameters(), lr=1e-7))
    assert "did not change by one bit" in fails("parameter-never-changes", trial).summary


def test_an_optimizer_that_was_given_what_is_frozen() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5)).requires_grad_(False)
    model[1].requires_grad_(True)
    optimizer = torch.optim.SGD([*model[3].parameters()], lr=0.1)
    verdict = fails("parameter-not-in-optimizer", trial_of(model, classes(8), cross_entropy, optimizer))
    assert "`1.weight`, `1.bias`" in verdict.summary


def test_a_head_that_the_optimizer_does_not_hold() -> None:
    model = mlp()
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.Adam(model[:4].parameters(), lr=1e-3))
    assert "`4.weight`, `4.bias`" in fails("parameter-not-in-optimizer", trial).summary


def test_layers_in_a_python_list() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [nn.Linear(8, 8)]
            self.head = nn.Linear(8, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.blocks[0](x))

    finding = fails("parameter-not-in-optimizer", trial_of(Listed(), classes(8), cross_entropy)).findings[0]
    assert "blocks[0].weight" in finding.message


def test_a_detached_body() -> None:
    model = Function(lambda layers, x: layers["head"](layers["body"](x).detach()), body=mlp(8, 8), head=nn.Linear(8, 5))
    verdict = fails("parameter-without-gradient", trial_of(model, classes(8), cross_entropy))
    assert "the graph is cut" in verdict.summary
    assert "layers.body.0.weight" in verdict.summary


def test_an_unused_layer_and_a_body_under_no_grad_only_warn() -> None:
    def forward(layers: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = layers["body"](x)
        return layers["head"](features)

    model = Function(forward, body=mlp(8, 8), head=nn.Linear(8, 5), spare=nn.Linear(2, 2))
    verdict = ask("parameter-without-gradient", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is Outcome.WARN
    assert ["no_grad" in f.message for f in verdict.findings] == [True, False]
    assert "spare.weight" in verdict.findings[1].message


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


def test_rows_that_mix_where_the_first_is_nothing() -> None:
    """After the transposition row 0 is what unit 0 says of every sample, and that unit is dead."""

    def forward(layers: Any, x: Tensor) -> Tensor:
        seen = F.relu(layers["first"](x))
        return layers["last"](seen.view(-1, len(x)).T.reshape(len(x), -1))

    model = Function(forward, first=nn.Linear(8, 32), last=nn.Linear(32, 5))
    nn.init.constant_(model.layers["first"].bias[:1].data, -50.0)
    verdict = fails("batch-mixing", trial_of(model, classes(8, size=32), cross_entropy))
    assert "layers.last" in verdict.findings[0].message


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
