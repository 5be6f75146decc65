"""Judges whether a term that knows nothing of the data drowns the loss it is added to."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.first_loss import FirstLoss

MUCH = 5.0


def check(seen: FirstLoss) -> Verdict:
    penalty = seen.penalty
    if penalty is None:
        return Verdict(Outcome.SKIP, reason="no single loss of torch.nn.functional is what backward is called on")
    if penalty.gradient_ratio < 1e-3:
        return Verdict(Outcome.PASS, "nothing is added to the loss", looked_at=1)
    pull = f"{penalty.gradient_ratio:.3g} times the gradient of the loss"
    if not penalty.about_weights:
        return Verdict(Outcome.PASS, f"what is added to the loss depends on the data and has {pull}", looked_at=1)
    if penalty.gradient_ratio < MUCH:
        return Verdict(Outcome.PASS, f"a penalty on the weights is added: {pull}", looked_at=1)
    loss = seen.losses[0]
    message = (
        f"a penalty of {penalty.value:.4g} on the weights is added to a {loss.kind} of {loss.value:.4g}, with {pull}: "
        "training shrinks the weights before it fits anything"
    )
    finding = Finding(
        message,
        loss.place,
        help="lower its weight by a factor of a hundred, or use the optimizer's weight_decay (1e-4 to 1e-2)",
        numbers={"gradient ratio": penalty.gradient_ratio, "penalty": penalty.value},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=1)
