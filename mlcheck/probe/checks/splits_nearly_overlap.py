"""Judges whether validation samples are training samples in another guise: re-encoded, noisy, or a window further."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.near import FEW_DIMENSIONS, Near, near_pairs
from mlcheck.probe.measure.data.pictures import pairs
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.shared_tiles import SharedTiles, shared_tiles
from mlcheck.probe.measure.data.shared_windows import shared_windows
from mlcheck.probe.measure.data.split import Split

SHARED = 0.3
FEW_PAIRS = 3
MANY = 0.1


def check(seen: Samples) -> Verdict:
    training, validation = seen.training, seen.validation
    if validation is None:
        return Verdict(Outcome.SKIP, reason="there is no validation data that can be asked for a sample")
    windows = shared_windows(training, validation)
    if windows and windows[0] >= SHARED:
        return _overlapping(*windows, looked=len(validation.kept))
    tiles = shared_tiles(training, validation)
    if tiles and tiles.found >= SHARED * tiles.asked:
        return _tiled(tiles)
    near = near_pairs(training, validation)
    if near is None:
        return Verdict(
            Outcome.SKIP, reason="samples hold ids, differ in shape, or are too few or too simple to be compared"
        )
    told = f"{len(near.pairs)} of {near.asked:,} validation samples nearly equal one of {near.known:,} training samples"
    if near.dimension < FEW_DIMENSIONS:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"samples have about {near.dimension:.1f} degrees of freedom: near ones come by chance",
        )
    by_chance = len(near.pairs) <= near.expected + 5 * math.sqrt(near.expected)
    by_density = len(near.pairs) < MANY * near.asked and 2 * near.isolated < len(near.pairs)
    if len(near.pairs) < FEW_PAIRS or by_chance or by_density:
        return Verdict(Outcome.PASS, told, looked_at=near.asked)
    return _near(near, told, training, validation)


def _near(near: Near, told: str, training: Split, validation: Split) -> Verdict:
    mine, theirs = near.pairs[0]
    message = f"{told}: validation sample {mine} is almost training sample {theirs}"
    finding = Finding(
        message,
        help="split by what samples come from (picture, patient, recording) before they are augmented or cut up",
        numbers={"pairs": float(len(near.pairs)), "by chance": near.expected},
    )
    rows = [[one, other] for one, other in near.pairs[:20]]
    table = Figure("table", "the nearest pairs", {"columns": ["validation sample", "training sample"], "rows": rows})
    pictures = pairs("validation sample and nearest training sample", validation.kept, training.kept, list(near.pairs))
    return Verdict(Outcome.WARN, message, findings=(finding,), figures=(*pictures, table), looked_at=near.asked)


def _overlapping(share: float, stretch: int, looked: int) -> Verdict:
    message = (
        f"{100 * share:.3g} % of the validation sequences hold a stretch of {stretch} values that is in a training "
        "sequence too, at another offset: windows of the two splits overlap"
    )
    finding = Finding(
        message,
        help="split the series first, by time or by recording, and cut windows out of each part",
        numbers={"share": share},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=looked)


def _tiled(tiles: SharedTiles) -> Verdict:
    down, right = tiles.offset
    message = (
        f"{tiles.found} of {tiles.asked} validation pictures lie over a training picture, moved by {abs(down)} rows "
        f"and {abs(right)} columns: tiles that overlap were cut out of one picture, and then split"
    )
    finding = Finding(
        message,
        help="split the large pictures, or regions of them, and cut tiles out of each part",
        numbers={"shared": float(tiles.found)},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=tiles.asked)
