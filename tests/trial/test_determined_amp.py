"""Mixed precision in the stand-in for Determined: scaling, unscaling before clipping, the autocast proxy."""

from __future__ import annotations

import pytest
from determined_programs import Load, train, weight

from mlcheck.trial.sandbox import restored

SCALED = """
class T(Base):
    def __init__(self, context):
        {before}
        super().__init__(context)
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward({loss})
        grads = []
        self.context.step_optimizer(self.opt, clip_grads=lambda ps: grads.extend(p.grad.item() for p in ps){scaler})
        {after}
        return {{"grad": grads[0]}}
"""


def test_use_amp_scales_unscales_before_clipping_and_updates(load_determined: Load) -> None:
    before = "context.experimental.use_amp(); context._scaler = torch.amp.GradScaler('cpu', init_scale=8.0)"
    trial = load_determined(SCALED.format(before=before, loss="loss", scaler="", after=""))
    assert train(trial, 1)[0]["grad"] == pytest.approx(-2.0)
    assert weight(trial) == pytest.approx(0.2)
    assert [event for event, _ in trial.record][-8:] == [
        "batch", "backward", "unscale", "clip_grads", "step_optimizer", "step", "zero_grad", "scaler_update",
    ]  # fmt: skip


def test_a_scaler_of_the_users_is_not_unscaled_before_clipping(load_determined: Load) -> None:
    """Determined unscales only for use_amp: clipping sees the scaled gradient, the step the right one."""
    before = "self.scaler = context.wrap_scaler(torch.amp.GradScaler('cpu', init_scale=8.0))"
    parts = {"loss": "self.scaler.scale(loss)", "scaler": ", scaler=self.scaler", "after": "self.scaler.update()"}
    trial = load_determined(SCALED.format(before=before, **parts))
    assert train(trial, 1)[0]["grad"] == pytest.approx(-16.0)
    assert weight(trial) == pytest.approx(0.2)


def test_the_autocast_proxy_shares_the_model(load_determined: Load) -> None:
    trial = load_determined("""
class T(Base):
    def __init__(self, context):
        self.context = context
        context.experimental.use_amp()
        net = One()
        self.model = context.wrap_model(net)
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        assert isinstance(self.model, One) and self.model is not net and self.model.w is net.w
        self.model.eval()
        assert not net.training
""")
    train(trial, 1)
    assert weight(trial) == pytest.approx(0.2)
    with restored(trial) as state:
        train(trial, 2)
    assert state.unrestored == []
    assert weight(trial) == pytest.approx(0.2)
