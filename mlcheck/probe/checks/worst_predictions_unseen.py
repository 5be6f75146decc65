"""Lays out the validation samples that the model is most wrong about: why it is, only a person can see."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.gallery import picture_of, pictures_alike
from mlcheck.probe.measure.data.one_by_one import laid_out
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.predictions import Prediction, Predictions

MOST_CLASSES = 20


def check(run: ShortRun) -> Verdict:
    seen = run.predictions
    if seen is None:
        reason = "no evaluation was seen whose loss can be told for each sample beside what the model was given"
        return Verdict(Outcome.SKIP, reason=reason)
    worst = [one.loss for one in seen.worst]
    told = (
        f"after {plural(run.steps, 'step')}, the {len(worst)} highest losses of "
        f"{plural(seen.samples, 'validation sample')} are "
        f"{worst[-1]:.3g} to {worst[0]:.3g}, the mean of all {seen.mean:.3g}"
    )
    return Verdict(
        Outcome.PENDING,
        told,
        reason="a person has to look: are these labels right, and could you tell from these inputs?",
        figures=tuple(figure for figure in (_worst(seen, run.steps), _confusion(seen)) if figure),
        looked_at=seen.samples,
    )


def _worst(seen: Predictions, steps: int) -> Figure | None:
    beside = "label, what the model says, and loss" if any(one.said for one in seen.worst) else "its loss"
    title = f"the worst predictions after {plural(steps, 'step')}, {seen.field} with {beside}"
    if dense := [one for one in seen.worst if one.target is not None and picture_of(one.input)]:
        return Figure("images", f"{title}: input, label, output", {"tiles": [t for one in dense for t in _three(one)]})
    return laid_out(title, [one.input for one in seen.worst], [_caption(one) for one in seen.worst], seen.decode)


def _three(one: Prediction) -> list[dict[str, str]]:
    """The input, the label and what the model makes of it; the latter two in the same shades."""
    assert one.target is not None
    assert one.output is not None
    label, output = pictures_alike([one.target, one.output])
    told = (_caption(one), "label", "output")
    return [{"png": png, "caption": said} for png, said in zip((picture_of(one.input), label, output), told)]


def _caption(one: Prediction) -> str:
    """`3, says 8 (97%), loss 6.2`; in a mask or a picture nobody reads single numbers."""
    told = [one.label or f"sample {one.place}"]
    told += [f"says {one.said}"] if one.said else []
    return ", ".join((*told, f"loss {one.loss:.3g}"))


def _confusion(seen: Predictions) -> Figure | None:
    """Which class is taken for which, where there are few enough to be read and something was mistaken."""
    classes = sorted({one for pair in seen.confusion for one in pair})
    if not 2 <= len(classes) <= MOST_CLASSES or all(label == said for label, said in seen.confusion):
        return None
    values = [[seen.confusion.get((label, said), 0) for said in classes] for label in classes]
    names = [str(one) for one in classes]
    title = "validation labels (rows) and what the model says (columns)"
    return Figure("matrix", title, {"rows": names, "columns": names, "values": values})
