"""Judges whether all ranks hold the same weights after every step, and names what parts them."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.ranks import weights as rank_weights
from mlcheck.probe.measure.ranks.run import RankRun
from mlcheck.probe.measure.ranks.weights import drift

_HELP = {
    rank_weights.BYPASSED: "call the wrapped model in training, not its `.module` nor the model that was wrapped",
    rank_weights.UNAVERAGED: "leave no_sync() before the last forward and backward pass of an update",
    rank_weights.CHANGED: "cast, move and rebuild the model first, wrap it last",
    rank_weights.OUTSIDE: "make it part of a module that is wrapped, also where it belongs to the loss",
    rank_weights.AFTERWARDS: "clip, mask and scale gradients alike on all ranks, after the last backward pass; where "
    "nothing does, the exchange itself loses data",
    rank_weights.RATES: "give every rank the same learning rate: the size of the world may scale it, the rank must not",
    rank_weights.UNUSED: "remove what is unused, use it in every step, or wrap with find_unused_parameters=True",
    rank_weights.UNWRAPPED: "wrap it, DistributedDataParallel(model), or average the gradients before every step",
    rank_weights.START: "wrap the model in DistributedDataParallel, or broadcast the weights of rank 0 at the start",
}


def check(run: RankRun) -> Verdict:
    found, world = drift(run), len(run.ranks)
    if found is None:
        compared = sum(step.optimizer >= 0 for step in run.ranks[0].of(rank_weights.Step))
        weights = len(run.steps[0][0].weights)
        summary = (
            f"{world} ranks hold the same {plural(weights, 'weight')} and gradients, bit for bit, over "
            f"{plural(compared, 'step')}"
        )
        return Verdict(Outcome.PASS, summary, looked_at=compared)
    kind = "gradients" if found.gradient else "weights"
    when = f"at step {found.step}" if found.step else "from the start"
    share = f"{found.differing} of {found.compared} {kind} differ between ranks {when} (`{found.what}`)"
    message = f"{share}: {found.told}"
    finding = Finding(message, found.place, help=_HELP[found.cause])
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=run.updates)
