"""The stand-in trains like Determined's harness: weights of a one-parameter model, worked out by hand.

The model and its data are in `determined_programs`.
"""

from __future__ import annotations

import pytest
from determined_programs import HEAD, Load, by_hand, train, weight


def test_plain_steps(load_determined: Load) -> None:
    trial = load_determined("class T(Base): pass")
    metrics = train(trial, 8)
    assert weight(trial) == pytest.approx(by_hand([1, 2, 3, 4, 5, 6, 1, 2], [0.1] * 8), rel=1e-5)
    assert metrics[0]["loss"] == pytest.approx(1.0)
    assert type(metrics[0]["loss"]).__name__ == "ndarray"
    assert trial.owns_loop
    assert trial.entry == ("model_def.py", HEAD.count("\n") + 1)
    assert (list(trial.models), list(trial.optimizers)) == (["model"], ["opt"])


@pytest.mark.parametrize(("average", "divisor"), [("true", 3.0), ("false", 1.0)])
def test_aggregation_steps_every_third_batch_on_the_mean_gradient(
    load_determined: Load, average: str, divisor: float
) -> None:
    config = f"optimizations: {{aggregation_frequency: 3, average_aggregated_gradients: {average}}}"
    trial = load_determined("class T(Base): rate = 0.001", config)
    weights = []
    for index in range(6):
        train(trial, 1, index)
        weights.append(weight(trial))
    step = 3 * 2 * 0.001 * 1 / divisor
    assert weights[:3] == pytest.approx([0, 0, step])
    gradient = 3 * 2 * (1 - step) * 0.001 / divisor
    assert weights[3:] == pytest.approx([step, step, step + gradient])
    assert trial.models["model"].w.grad is None
    assert [event for event, _ in trial.record if event in {"aggregate", "step", "zero_grad"}] == [
        *["aggregate", "aggregate", "step", "zero_grad"] * 2
    ]


LR = """
class T(Base):
    rate = 1e-6
    def __init__(self, context):
        super().__init__(context)
        schedule = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda steps: 1 + steps)
        self.lrs = context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.{mode}, frequency={frequency})
"""


@pytest.mark.parametrize(
    ("mode", "frequency", "aggregation", "steps_after_batch"),
    [
        ("STEP_EVERY_BATCH", 1, 1, [1, 2, 3, 4, 5, 6, 7]),
        ("STEP_EVERY_BATCH", 2, 1, [0, 1, 1, 2, 2, 3, 3]),
        ("STEP_EVERY_BATCH", 1, 2, [0, 2, 2, 4, 4, 6, 6]),
        ("STEP_EVERY_BATCH", 2, 3, [0, 0, 1, 1, 1, 3, 3]),
        ("STEP_EVERY_OPTIMIZER_STEP", 1, 1, [1, 2, 3, 4, 5, 6, 7]),
        ("STEP_EVERY_OPTIMIZER_STEP", 1, 2, [0, 1, 1, 2, 2, 3, 3]),
        ("STEP_EVERY_OPTIMIZER_STEP", 4, 2, [0, 0, 0, 1, 1, 1, 1]),
        ("STEP_EVERY_EPOCH", 1, 1, [0, 0, 1, 1, 1, 2, 2]),
        ("STEP_EVERY_EPOCH", 2, 1, [0, 0, 0, 0, 0, 1, 1]),
        ("STEP_EVERY_EPOCH", 1, 2, [0, 1, 1, 1, 1, 2, 2]),
        ("MANUAL_STEP", 1, 1, [0] * 7),
    ],
)
def test_schedulers_step_when_the_harness_does(
    load_determined: Load, mode: str, frequency: int, aggregation: int, steps_after_batch: list[int]
) -> None:
    """Epochs of three batches; what is compared is how often the schedule has stepped after each batch."""
    source = LR.format(mode=mode, frequency=frequency) + "    rows = 3\n"
    trial = load_determined(source, f"optimizations: {{aggregation_frequency: {aggregation}}}")
    counts = []
    for index in range(7):
        train(trial, 1, index)
        counts.append(trial.schedulers["lrs"].last_epoch)
    assert counts == steps_after_batch
    assert trial.optimizers["opt"].param_groups[0]["lr"] == pytest.approx(1e-6 * (1 + counts[-1]))


def test_clipping_happens_after_averaging_and_before_the_step(load_determined: Load) -> None:
    trial = load_determined(
        """
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        seen = []
        def clip(parameters):
            seen.extend(p.grad.clone() for p in parameters)
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        self.context.step_optimizer(self.opt, clip_grads=clip)
        return {"before": torch.cat(seen) if seen else torch.zeros(1)}
""",
        "optimizations: {aggregation_frequency: 2}",
    )
    metrics = train(trial, 2)
    assert metrics[1]["before"].tolist() == [pytest.approx(-(2 * 1 + 2 * 2) / 2)]
    assert weight(trial) == pytest.approx(0.1 * 0.5)


def test_the_users_own_zero_grad(load_determined: Load) -> None:
    """auto_zero_grads=False leaves the gradient; with aggregation it is refused."""
    source = """
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        self.context.backward(self.loss(batch))
        self.context.step_optimizer(self.opt, auto_zero_grads=False)
        return {}
"""
    trial = load_determined(source)
    train(trial, 1)
    assert trial.models["model"].w.grad.item() == pytest.approx(-2.0)
    refused = load_determined(source, "optimizations: {aggregation_frequency: 2}")
    with pytest.raises(Exception, match="auto_zero_grads"):
        train(refused, 1)


def test_a_step_that_never_comes_stays_visible(load_determined: Load) -> None:
    trial = load_determined("""
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        return self.loss(batch)
""")
    assert train(trial, 2)[1] == {"loss": pytest.approx(1.0)}
    assert weight(trial) == 0
    assert [event for event, _ in trial.record if event in {"backward", "step", "zero_grad"}] == []


def test_calls_around_the_context_are_recorded_too(load_determined: Load) -> None:
    trial = load_determined("""
class T(Base):
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        loss.backward()
        self.opt.step()
        return {"loss": loss}
""")
    train(trial, 1)
    assert trial.record[-2:] == [("batch", "0"), ("step", "opt")]
