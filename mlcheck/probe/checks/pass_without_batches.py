"""Judges whether every pass over the data gives batches: the second as the first, and validation at all."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.samples import Samples


def check(passes: Passes, samples: Samples | None) -> Verdict:
    never, used_up = _never(passes, samples), _used_up(passes)
    count = len(passes.training.digests)
    if findings := tuple(finding for finding in (never, used_up) if finding):
        outcome = Outcome.FAIL if never else Outcome.WARN
        return Verdict(outcome, findings[0].message, findings=findings, looked_at=count)
    told = f"a pass over the training data gave {plural(count, 'batch')}, and the next {len(passes.again.digests)}"
    return Verdict(Outcome.PASS, told, looked_at=count)


def _used_up(passes: Passes) -> Finding | None:
    if not passes.training.whole or passes.again.digests:
        return None
    count = len(passes.training.digests)
    message = (
        f"the training data is used up by one pass: the first gave {plural(count, 'batch')}, the second none, so that "
        "all later epochs train nothing"
    )
    help_ = "let `__iter__` begin anew: make the generator, file or iterator there, not in `__init__`"
    return Finding(message, help=help_, numbers={"batches": float(count)})


def _never(passes: Passes, samples: Samples | None) -> Finding | None:
    validation = passes.validation
    if validation is None or validation.digests or not validation.whole:
        return None
    held = samples.validation.length if samples and samples.validation else 0
    why = (
        f" though its data set has {plural(held, 'sample')}: fewer than one batch, and the rest is dropped"
        if held
        else ""
    )
    message = f"the validation loader gives no batch{why}: no metric is ever computed"
    return Finding(message, help="leave out drop_last for validation, or make its batches smaller")
