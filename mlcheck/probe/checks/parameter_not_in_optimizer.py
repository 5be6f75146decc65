"""Judges parameters that get gradients and that no optimizer holds."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.unregistered import Fleeting, Stray
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.training_steps import TrainingSteps


def _made_anew(fleeting: Fleeting) -> Finding:
    whose = f" (of {', '.join(f'`{kind}`' for kind in fleeting.kinds)})" if fleeting.kinds else ""
    message = (
        f"{fleeting.count} parameters{whose} that belong to no model take part in the loss and are made anew in every "
        "step: they stay at their random start, and what was learnt around them is lost"
    )
    return Finding(message, help="make these layers in `__init__`: what `forward` makes lives for one pass")


def _made_late(names: tuple[str, ...]) -> Finding:
    message = (
        f"{listed(list(names))} are made when the model first runs, after the optimizer was given its parameters: no "
        "optimizer holds them"
    )
    help_ = "make these layers in `__init__`, or run the model once before the optimizer is made"
    return Finding(message, Location(symbol=names[0]), help=help_)


def _belonging_nowhere(strays: list[Stray]) -> Iterator[Finding]:
    """What a variable of the program holds is only not trained; what a model hides is not moved or saved either."""
    held = [stray.told for stray in strays if stray.name and not stray.kept]
    if held:
        take, them = ("takes", "it") if len(held) == 1 else ("take", "them")
        message = f"{listed(held)} {take} part in the loss, but no optimizer holds {them}"
        help_ = "pass them to the optimizer, or set requires_grad=False if they are meant to stay"
        yield Finding(message, Location(symbol=held[0]), help=help_)
    hidden = [stray.told for stray in strays if stray.kept or not stray.name]
    if hidden:
        take = "takes part in the loss but belongs" if len(hidden) == 1 else "take part in the loss but belong"
        message = f"{listed(hidden)} {take} to no model: neither trained, moved nor saved"
        help_ = "keep modules in nn.ModuleList or nn.ModuleDict, parameters in nn.ParameterList"
        yield Finding(message, Location(symbol=hidden[0]), help=help_)


def check(steps: TrainingSteps) -> Verdict:
    trained = [story for story in steps.parameters if story.requires_grad and story.trace.nonzero]
    if not trained and not steps.unregistered and not steps.late:
        return Verdict(Outcome.INCONCLUSIVE, reason="no parameter got a gradient that is not zero")
    left_out = [story for story in trained if not story.optimizers and not story.changed]
    findings = []
    if left_out:
        elements = sum(story.elements for story in left_out)
        message = (
            f"{listed([s.name for s in left_out])} ({plural(elements, 'number')}) get gradients, but no "
            "optimizer holds them"
        )
        help_ = "pass them to the optimizer, or set requires_grad=False if they are meant to stay"
        findings.append(Finding(message, Location(symbol=left_out[0].name), help=help_))
    if steps.late:
        findings.append(_made_late(steps.late))
    if steps.fleeting:
        findings.append(_made_anew(steps.fleeting))
    elif steps.unregistered:
        findings += _belonging_nowhere(steps.unregistered)
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=tuple(findings), looked_at=len(trained))
    if not steps.gives_optimizer:
        return Verdict(Outcome.SKIP, reason="the optimizer is mlcheck's own: your program gives none")
    strays = sum(steps.strays.values())
    note = f"; optimizers hold {plural(strays, 'tensor')} besides" if strays else ""
    return Verdict(
        Outcome.PASS,
        f"{plural(len(trained), 'parameter')} with gradients, and all in an optimizer{note}",
        looked_at=len(trained),
    )
