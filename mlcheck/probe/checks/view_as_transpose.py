"""Judges whether pictures, heads of attention and what was moved keep their order, or are read in another one."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.pixel_order import PixelOrder
from mlcheck.probe.measure.model.attention_heads import AttentionHeads
from mlcheck.probe.measure.model.first_inputs import FirstInputs
from mlcheck.probe.measure.model.moved_dimensions import MovedDimensions

NEARLY_ALL = 0.95
SMOOTHER = 0.8
SLIGHTLY_SMOOTHER, MANY = 0.9, 32  # in every one of so many samples: pictures that are mostly noise
_HELP = "height x width x channels becomes channels first by `permute(0, 3, 1, 2)`; `reshape` and `view` keep the order"


_MOVE = (
    "take heads apart by `view(n, t, heads, width).transpose(1, 2)`, together by `transpose(1, 2).reshape(n, t, -1)`"
)


def check(seen: FirstInputs | None, heads: AttentionHeads | None, moves: MovedDimensions | None) -> Verdict:
    if heads and heads.scrambled:
        return _heads(heads)
    if moves and (moves.renumbered or moves.series):
        return _renumbered(moves)
    if moves and moves.torn:
        return _torn(moves)
    judged = [(one.layer, one.pixels) for one in seen.inputs if one.pixels] if seen else []
    if not judged and heads and heads.products:
        told = "products of attention are of heads whose tokens were moved, not renumbered"
        return Verdict(Outcome.PASS, told, looked_at=heads.products)
    if not judged and moves and moves.reshaped:
        told = "dimensions that were moved are merged in their new order"
        return Verdict(Outcome.PASS, told, looked_at=moves.reshaped)
    if not judged:
        return Verdict(Outcome.SKIP, reason="no convolution gets pictures of several channels straight from the data")
    findings = tuple(
        Finding(
            f"the pictures that enter `{layer}` are scrambled: neighbouring pixels resemble each other more when the "
            f"same numbers are read as height x width x channels (difference {pixels.interleaved:.2g} of what chance "
            f"gives, {pixels.given:.2g} as they are), in {100 * pixels.share:.3g} % of {pixels.samples} samples",
            Location(symbol=layer.partition(" ")[0]),
            help=_HELP,
        )
        for layer, pixels in judged
        if _is_smoother(pixels)
    )
    looked = sum(pixels.samples for _, pixels in judged)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=looked)
    layer, pixels = judged[0]
    told = f"the pictures that enter `{layer}` are at their smoothest as they are (difference {pixels.given:.2g})"
    return Verdict(Outcome.PASS, told, looked_at=looked)


def _is_smoother(pixels: PixelOrder) -> bool:
    ratio = pixels.interleaved / pixels.given
    in_all = pixels.share == 1 and pixels.samples >= MANY
    return ratio < (SLIGHTLY_SMOOTHER if in_all else SMOOTHER) and pixels.share >= NEARLY_ALL


def _heads(seen: AttentionHeads) -> Verdict:
    findings = tuple(
        Finding(
            f"attention reads heads in another order: a view makes {one.after} of {one.before}, so that a head holds a "
            "stretch of the tokens instead of a part of each",
            one.place,
            help=_MOVE,
        )
        for one in seen.scrambled
    )
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.products)


def _torn(seen: MovedDimensions) -> Verdict:
    findings = tuple(
        Finding(
            f"{one.before} is moved to {one.moved} and then reshaped to {one.after}, which is what it merges to "
            "without the move: each row gets numbers of all channels instead of its own",
            one.place,
            help="leave the move out, or merge the dimensions in the order that they have after it",
        )
        for one in seen.torn
    )
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.reshaped)


def _renumbered(seen: MovedDimensions) -> Verdict:
    scores = tuple(
        Finding(
            f"the scores that the loss gets are renumbered: a view makes {one.after} of {one.before}, so that the "
            "classes of a place are numbers of several places",
            one.place,
            help="put the classes second by `scores.transpose(1, 2)`, or flatten scores and targets",
        )
        for one in seen.renumbered
    )
    series = tuple(
        Finding(
            f"a layer that goes along steps is given renumbered ones: a view makes {one.after} of {one.before}, so "
            "that a step is made of numbers of several steps and features",
            one.place,
            help="exchange steps and features by `transpose(1, 2)`",
        )
        for one in seen.series
    )
    findings = scores + series
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(findings))
