"""Judges parameters that the optimizer holds and no backward pass ever reached."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.parameter_story import ParameterStory
from mlcheck.probe.measure.training.training_steps import MANY_STEPS, TrainingSteps

_REVERSE = "_reverse"
_STEP_FUNCTION = "what follows is a step function, whose slope is 0 (sign, round, floor, argmax)"


def check(steps: TrainingSteps) -> Verdict:
    idle = {name for name, count in steps.updates.items() if not count} if any(steps.updates.values()) else set()
    held = [story for story in steps.parameters if story.requires_grad and set(story.optimizers) - idle]
    if not steps.backwards:
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"no backward pass was made in {plural(steps.steps, 'training step')}"
        )
    if steps.steps >= MANY_STEPS and held and not any(s.trace.nonzero or s.trace.applied for s in held):
        return _zeros(steps, held)
    unknown = [story for story in held if _is_without(story) and story.influences is None]
    if unknown and len(unknown) == len(held) and any(steps.updates.values()):
        return _cut_off(steps, held)
    severe = _severe(held, steps.steps)
    findings = [*severe, *_mild(held, steps.steps)]
    if not findings and (idle_term := [s for s in held if s.is_flat and s.influences is False]):
        reason = (
            f"{listed([s.name for s in idle_term])}: every gradient was 0 in {plural(steps.steps, 'step')}, and the "
            "loss does not change with them, as where a term has a weight of 0. Is it to be left out, or to begin "
            "later?"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(held))
    if not findings:
        off = sum(not story.requires_grad for story in steps.parameters)
        note = f"; {off} are frozen (requires_grad=False)" if off else ""
        return Verdict(
            Outcome.PASS, f"{plural(len(held), 'trained parameter')}, and all got gradients{note}", looked_at=len(held)
        )
    outcome = Outcome.FAIL if severe else Outcome.WARN
    return Verdict(outcome, findings[0].message, findings=tuple(findings), looked_at=len(held))


def _is_without(story: ParameterStory) -> bool:
    """Whether backward brought no gradient, and the program set none by itself, as the outer loop of Reptile does."""
    return not story.trace.arrivals and not story.trace.applied


def _severe(held: list[ParameterStory], steps: int) -> list[Finding]:
    """Parameters that matter and get no gradient, or one that is 0."""
    flat, always = [s for s in held if s.is_flat], f"in all of {plural(steps, 'step')}"
    return [
        *_finding(
            [s for s in flat if s.waits],
            "",
            f"are all zeros and get gradients of 0 {always}: each is multiplied by another of them, which is 0, so "
            "none can ever begin (changed together they change the loss, alone none does)",
        ),
        *_finding(
            [s for s in flat if s.influences],
            f"changes the loss and gets a gradient of 0 {always}: {_STEP_FUNCTION}",
            f"change the loss and get gradients of 0 {always}: {_STEP_FUNCTION}",
        ),
        *_finding(
            [s for s in held if _is_without(s) and s.influences and not s.under_no_grad],
            "changes the loss but gets no gradient: the graph is cut (detach, .data, .item, numpy)",
            "change the loss but get no gradient: the graph is cut (detach, .data, .item, numpy)",
        ),
    ]


def _mild(held: list[ParameterStory], steps: int) -> list[Finding]:
    """Parameters without a gradient that may be meant to have none."""
    silent, never = [s for s in held if _is_without(s)], f"never got a gradient in {plural(steps, 'step')}"
    live = {s.name for s in held if s.trace.nonzero}
    return [
        *_finding(
            [s for s in silent if s.influences and s.under_no_grad],
            "gets no gradient because its module runs under torch.no_grad(), yet the optimizer holds it",
            "get no gradient because their module runs under torch.no_grad(), yet the optimizer holds them",
        ),
        *_finding(
            [s for s in silent if s.influences is False],
            f"{never} and does not change the loss: it is not used",
            f"{never} and do not change the loss: they are not used",
        ),
        *_finding([s for s in silent if s.influences is None], never),
        *_finding(
            [s for s in held if s.is_flat and s.influences is False and _other_direction(s.name) in live],
            "",
            f"get gradients of 0 in all of {plural(steps, 'step')}, and the loss does not change with them: what this "
            "direction of a recurrent layer says is not used, what the other says is",
        ),
    ]


def _other_direction(name: str) -> str:
    """What torch calls the weight of the other direction of a recurrent layer."""
    return name.removesuffix(_REVERSE) if name.endswith(_REVERSE) else name + _REVERSE


def _zeros(steps: TrainingSteps, held: list[ParameterStory]) -> Verdict:
    message = f"in {steps.steps} training steps every gradient was 0: the loss does not depend on any weight"
    finding = Finding(message, steps.backward_place, help="look at what the loss is made of: it is constant")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(held))


def _cut_off(steps: TrainingSteps, held: list[ParameterStory]) -> Verdict:
    """The optimizer steps, backward is called, and the one knows nothing of the other."""
    message = (
        f"backward reaches none of the {plural(len(held), 'parameter')} that the optimizer steps, in "
        f"{plural(steps.steps, 'step')}: the loss is made of numbers that are cut off from the model"
    )
    help_ = "look for .item(), .detach(), .numpy(), torch.tensor(...) or no_grad() between model and loss"
    finding = Finding(message, steps.backward_place, help=help_)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=len(held))


def _finding(stories: list[ParameterStory], one: str, several: str = "") -> list[Finding]:
    if not stories:
        return []
    names = listed([story.name for story in stories])
    what = several if several and len(stories) > 1 else one
    return [Finding(f"{names} {what}", Location(symbol=stories[0].name), numbers={"parameters": float(len(stories))})]
