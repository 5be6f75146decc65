"""Judges how many labels differ from those of all samples that look alike."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.labels import Labels
from mlcheck.probe.measure.data.neighbours import Consensus, consensus, features
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.samples import Samples

FEW = 100
FEW_HELD_OUT = 30
JUDGED = 0.3
NOISY = 0.08
SHOWN = 24


def check(labels: Labels, passes: Passes, samples: Samples | None, *, share: float = NOISY) -> Verdict:
    use = next((use for use in labels.uses if use.one_a_sample and use.field), None)
    training = features(passes.training.kept, use.field) if use else None
    if use is None or training is None:
        return Verdict(Outcome.SKIP, reason="there is no class label a sample beside inputs of one size")
    found = consensus(training, use.ignored)
    if found.judged < FEW or found.judged < JUDGED * found.samples:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"only {found.judged} of {found.samples} samples have neighbours that agree: the inputs as they are "
            "do not tell the classes apart",
        )
    low, high = interval(found)
    told = (
        f"{100 * found.share:.1f} % of labels ({100 * low:.1f} to {100 * high:.1f} %) differ from those of the "
        "samples most like theirs"
    )
    numbers = {"share": found.share, "low": low, "high": high}
    figures = _figures(found, training[1].tolist())
    if low <= share:
        return Verdict(Outcome.PASS, told, figures=figures, numbers=numbers, looked_at=found.judged)
    held_out = features(passes.validation.kept, use.field) if passes.validation else None
    control = consensus(held_out, use.ignored) if held_out else None
    if control is None or control.judged < FEW_HELD_OUT:
        reason = f"{told}, and too few held-out samples have neighbours that agree to tell noise from classes that mix"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    # What neighbours get wrong in the held-out samples, at the most, is the classes' own overlap.
    overlap = interval(control)[1]
    message = f"{told}; in validation {100 * control.share:.1f} % do (at most {100 * overlap:.1f} %)"
    numbers["in validation"] = control.share
    if low <= overlap:
        return Verdict(Outcome.PASS, message, figures=figures, numbers=numbers, looked_at=found.judged)
    help_ = "look at the samples listed; labels may be wrong, or shifted against the inputs"
    if samples and samples.training.varying:
        message += "; training samples are augmented, and may no longer show what their label says"
        help_ += ", and a flip or a turn may make another class of a sample"
    finding = Finding(message, help=help_)
    return Verdict(
        Outcome.WARN,
        message,
        findings=(finding,),
        figures=figures,
        numbers=numbers,
        looked_at=found.judged,
    )


def interval(found: Consensus) -> tuple[float, float]:
    """Wilson's interval at 99 %."""
    z, n, p = 2.576, found.judged, found.share
    middle, reach = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, (middle - reach) / (1 + z * z / n)), (middle + reach) / (1 + z * z / n)


def _figures(found: Consensus, labels: list[int]) -> tuple[Figure, ...]:
    if not found.suspects:
        return ()
    rows = [[place, labels[place]] for place in found.suspects[:SHOWN]]
    return (Figure("table", "the most suspicious labels", {"columns": ["place in the pass", "label"], "rows": rows}),)
