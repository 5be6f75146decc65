"""Judges whether every sample can be read, and put into a batch with the others."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.samples import HeldOutSamples, Samples
from mlcheck.probe.measure.data.split import BadSample, Split
from mlcheck.probe.measure.names import listed, part_of


def check(seen: Samples | None, held_out: HeldOutSamples | None) -> Verdict:
    read = seen or held_out
    if read is None:
        return Verdict(Outcome.SKIP, reason="the loaders do not read from data sets that can be asked for a sample")
    splits = read.splits
    if all(split.raised and len(split.raised) == split.read for split in splits):
        first = splits[0].raised[0]
        return Verdict(
            Outcome.INCONCLUSIVE, reason=f"no sample can be asked for by its number: sample {first.index} {first.what}"
        )
    findings = tuple(finding for split in splits for finding in (*_raised(split), *_ragged(split)))
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=splits[0].read)
    told = "; ".join(_read(split) for split in splits)
    return Verdict(Outcome.PASS, told, looked_at=sum(split.read for split in splits))


def _read(split: Split) -> str:
    if split.whole:
        return f"{plural(split.length, f'{split.name} sample')}, and all can be read"
    bound = 100 * 3 / split.read
    return (
        f"{split.read:,} of {split.length:,} {split.name} samples, drawn at random, can be read: fewer than "
        f"{bound:.2g} % are bad, with 95 % confidence"
    )


def _raised(split: Split) -> list[Finding]:
    """The bad samples of a split, those of one error together."""
    by_error: dict[str, list[BadSample]] = {}
    for bad in split.raised:
        by_error.setdefault(bad.what, []).append(bad)
    found = []
    for what, group in by_error.items():
        first, count = group[0], len(group)
        more = f", and so {'does one other' if count == 2 else f'do {count - 1} others'}" if count > 1 else ""
        message = f"{split.name} sample {first.index} {what}{more}, of {split.read:,} that were read"
        found.append(Finding(message, first.place, numbers={"index": float(first.index), "samples": float(count)}))
    return found


def _ragged(split: Split) -> list[Finding]:
    if not split.joined_by_default:
        return []
    uneven = {name: shapes for name, shapes in split.shapes.items() if len(shapes) > 1}
    if not uneven:
        return []
    name, shapes = next(iter(uneven.items()))
    (one, _), (other, _) = shapes.most_common(2)
    message = (
        f"{split.name} samples differ in the shape of {listed([part_of('sample', name) for name in uneven])}: sample "
        f"{split.example[name, one]} has {one}, sample {split.example[name, other]} has {other}, and the default "
        "collate_fn cannot put them into one batch"
    )
    return [Finding(message, help="give the DataLoader a collate_fn that pads, or bring samples to one size")]
