"""Judges whether a term that knows nothing of the data drowns the loss it is added to."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.added_term import AddedTerm
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.training.decay_trials import DecayTrials

MUCH = 5.0
GAIN = 0.1
HALF = 0.5
NEARLY_ALL = 0.95
WORTH = 0.1
NOTHING = 0.05
EARLY = 60


def check(seen: FirstLoss, decayed: DecayTrials | None, added: AddedTerm | None) -> Verdict:
    if decayed is not None and (message := _held_back(decayed)):
        help_ = "lower weight_decay: 1e-4 to 0.1 is common, and the first experiments do without"
        numbers = {"weight decay": decayed.decay}
        finding = Finding(message, help=help_, numbers=numbers)
        return Verdict(Outcome.WARN, message, findings=(finding,), numbers=numbers, looked_at=len(decayed.kept))
    about_weights = seen.penalty is not None and seen.penalty.about_weights
    verdict = _added(seen)
    if verdict.outcome is Outcome.PASS and added is not None and (message := _forgotten(added, about_weights)):
        help_ = "lower its weight, or raise it from 0 in the course of training; see that both are sums, or both means"
        numbers = {"worth alone": added.alone.worth, "worth with all": added.whole.worth}
        finding = Finding(message, added.place, help=help_, numbers=numbers)
        return Verdict(Outcome.WARN, message, findings=(finding,), numbers=numbers, looked_at=added.steps)
    return verdict


def _forgotten(seen: AddedTerm, about_weights: bool) -> str:
    """Where a model that has learnt to use its input unlearns that under the whole loss."""
    alone, whole = seen.alone, seen.whole
    if not alone.worth > WORTH * alone.exchanged or whole.own <= alone.own or whole.worth > NOTHING * alone.worth:
        return ""
    name = "" if about_weights else "; of a KL term this is posterior collapse"
    return (
        f"what is added to {seen.kind} makes the model forget its input: trained for {seen.steps} steps by {seen.kind} "
        f"alone it comes to {alone.own:.3g} ({alone.exchanged:.3g} with inputs exchanged between samples), after as "
        f"many more by the whole loss to {whole.own:.3g}, whatever the input ({whole.exchanged:.3g} exchanged){name}"
    )


def _held_back(seen: DecayTrials) -> str:
    """Where most of what training gains is lost by the decay; judged at the end of two runs over the same batches.

    A long run may learn by heart what a decay rightly keeps it from: then it counts what had been gained and is lost.
    """
    steps = len(seen.kept)
    if len(seen.freed) < steps:
        return ""
    kept, freed = seen.kept[:EARLY], seen.freed[:EARLY]
    if _loses(kept, freed):
        end, far = _end(kept), _end(freed)
        return _told(seen, f"the loss comes from {freed[0]:.3g} to {end:.3g}, without it to {far:.3g}", len(kept))
    best = min((_end(seen.kept[:until]) for until in range(EARLY // 3, steps + 1, EARLY // 3)), default=0.0)
    end = _end(seen.kept) if steps > EARLY else best
    if end - best < HALF * (seen.freed[0] - best) or not _loses(seen.kept, seen.freed):
        return ""
    comes = f"the loss comes from {seen.freed[0]:.3g} to {best:.3g}, and is at {end:.3g} in the end"
    return _told(seen, f"{comes}, without it at {_end(seen.freed):.3g}", steps)


def _told(seen: DecayTrials, comes: str, steps: int) -> str:
    return (
        f"the weight decay of {seen.decay:g} keeps the model from learning: over the same {plural(steps, 'batch')}, at "
        f"a rate of {seen.rate:.3g}, {comes}"
    )


def _loses(kept: tuple[float, ...], freed: tuple[float, ...]) -> bool:
    third = len(kept) // 3
    if not third:
        return False
    start, end = freed[0], _end(freed)
    paired = sum(a > b for a, b in zip(kept[-third:], freed[-third:]))
    gained = start - end >= GAIN * abs(start)
    return gained and start - _end(kept) <= HALF * (start - end) and paired >= NEARLY_ALL * third


def _end(losses: tuple[float, ...]) -> float:
    third = len(losses) // 3
    return sum(losses[-third:]) / third


def _added(seen: FirstLoss) -> Verdict:
    penalty = seen.penalty
    if penalty is None and seen.shrinking is not None:
        return _beside_own_loss(seen, seen.shrinking)
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
    told = f"a penalty of {penalty.value:.4g} on the weights is added to a {loss.kind} of {loss.value:.4g}, with {pull}"
    numbers = {"gradient ratio": penalty.gradient_ratio, "penalty": penalty.value}
    return _shrinks(told, loss.place, numbers)


def _beside_own_loss(seen: FirstLoss, ratio: float) -> Verdict:
    pull = f"{ratio:.3g} times the gradient of the rest"
    if ratio < MUCH:
        return Verdict(Outcome.PASS, f"a penalty on the weights is added: {pull}", looked_at=1)
    told = f"a penalty on the weights is added to the program's own loss, with {pull}"
    return _shrinks(told, seen.place, {"gradient ratio": ratio})


def _shrinks(told: str, place: Location, numbers: dict[str, float]) -> Verdict:
    message = f"{told}: training shrinks the weights before it fits anything"
    help_ = "lower its weight by a factor of a hundred, or use the optimizer's weight_decay (1e-4 to 1e-2)"
    finding = Finding(message, place, help=help_, numbers=numbers)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=1)
