"""Judges whether every input feature varies, with an eye for those that are rare rather than dead."""

from __future__ import annotations

from itertools import chain, repeat

import torch

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.columns import Columns, columns_of
from mlcheck.probe.measure.data.embedded_ids import EmbeddedIds, Lookups
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.same_inputs import same_inputs
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.stuck_runs import stuck_in_batches, stuck_in_order
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.model.first_inputs import FirstInput, FirstInputs
from mlcheck.probe.measure.names import part_of

FEW = 100
RARE = 0.5
RARER = 0.9  # of columns whose constant is a fraction: what may yet be told by such a one is no indicator that is off
MANY_WORDS = 20
CHANCE = 1e-6
_NONE = 1e-9  # of the largest spread: rounding


def check(
    passes: Passes,
    first: FirstLoss | None,
    entering: FirstInputs | None,
    lookups: Lookups | None,
    samples: Samples | None,
) -> Verdict:
    layers = entering.inputs if entering else ()
    signals = {layer.shape for layer in layers if layer.kind == "convolution" and layer.shape[0] > 1}
    tested = columns_of(passes.validation, signals=signals) if passes.validation else {}
    findings = _one_word(lookups.tables) if lookups else []
    told = []
    for name, trained in columns_of(passes.training, signals=signals).items():
        if trained.rows < FEW or (first and first.inputs and name not in first.inputs):
            continue
        constant = (trained.share == 1).nonzero()[:, 0].tolist()
        varying = len(trained.share) - len(constant)
        told.append(f"{varying} of {len(trained.share)} {trained.kind}s of `{trained.place}` vary")
        if len(constant) == len(trained.share):
            findings.append(_nothing(trained))
        elif constant:
            findings += [finding for finding in (_asleep(trained, tested.get(name), constant, layers),) if finding]
    same = same_inputs(passes.training, first.inputs) if first and not findings else None
    if same and same[1] >= FEW:
        findings.append(_one_and_the_same(*same))
    if not findings and (stuck := _stuck(passes, samples)):
        findings.append(stuck)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=tuple(findings), looked_at=len(told))
    if not told:
        return Verdict(Outcome.SKIP, reason="no floating-point input with several features was read often enough")
    return Verdict(Outcome.PASS, "; ".join(told[:3]), looked_at=len(told))


def _stuck(passes: Passes, samples: Samples | None) -> Finding | None:
    """A column that is constant for a while, in the order of the data set or of a pass."""
    in_order = stuck_in_order(samples.training.in_order) if samples and not samples.training.varying else iter(())
    in_batches = stuck_in_batches(passes.training.kept)
    for run, where in chain(zip(in_order, repeat("the data set")), zip(in_batches, repeat("a pass"))):
        message = (
            f"column {run.column} of `{part_of('batch', run.name)}` is {run.value:.4g} in {run.length} rows on end "
            f"({run.start} to {run.start + run.length - 1} of {where}), and in the other {run.rows - run.length:,} "
            "hardly ever the same twice"
        )
        return Finding(message, help="look at where these rows come from: a file or a batch that lacks the column")
    return None


def _one_word(tables: tuple[EmbeddedIds, ...]) -> list[Finding]:
    """Where no other embedding is asked for more: of kinds, languages or speakers there may well be but one."""
    if not tables or any(table.only is None or table.words < MANY_WORDS for table in tables):
        return []
    first = tables[0]
    filling = f", and {first.filling} fills up" if first.filling is not None else ""
    return [
        Finding(
            f"every id that `{first.name}` looks up is {first.only}, in {first.rows:,} rows{filling}: of "
            f"{first.words:,} words all inputs hold the same one",
            Location(symbol=first.name),
            help="look at how words become ids: a vocabulary with other keys (case, bytes, numbers) knows none of them",
        )
    ]


def _nothing(trained: Columns) -> Finding:
    return Finding(
        f"`{trained.place}` is the same in every sample: none of its {len(trained.share)} {trained.kind}s "
        f"varies in {trained.rows:,} rows",
        help="look at how the input is read: a buffer that is returned again and again, a scale of zero",
    )


def _one_and_the_same(place: str, samples: int) -> Finding:
    return Finding(
        f"`{place}` is the same in each of {samples:,} samples, in every bit, and what belongs to it is not",
        Location(symbol=place),
        help="look at how the input is read: a buffer that is returned again and again, an index that is not used",
    )


def _asleep(
    trained: Columns, tested: Columns | None, constant: list[int], layers: tuple[FirstInput, ...]
) -> Finding | None:
    """Constant in training and alive in validation; or constant where no other feature is nearly so."""
    places = torch.tensor(constant)
    numbers = {"constant": float(len(constant)), "of": float(len(trained.share))}
    shown = ", ".join(map(str, constant[:5])) + (", …" if len(constant) > 5 else "")
    what = f"{trained.kind} {shown} of `{trained.place}`"
    if tested is not None and len(tested.share) == len(trained.share):
        chances = tested.share[places].pow(trained.rows).tolist()
        woken = [index for index, chance in zip(constant, chances) if chance < CHANCE]
        if woken:
            return _woken(trained, woken, numbers)
    varying = trained.share[trained.share < 1]
    dead = [index for index in constant if float(trained.common[index]) != 1.0]
    if float(varying.max()) >= RARE:
        dead = [index for index in dead if float(trained.common[index]) % 1 != 0]
    if not dead or float(varying.max()) >= RARER:
        return None
    if trained.kind == "feature" and _at_an_end(constant, trained) and not _enters(constant, trained, layers):
        return None
    return Finding(
        f"{what} is {float(trained.common[dead[0]]):.4g} in all of {trained.rows:,} rows, while every other "
        f"{trained.kind} takes its commonest value in {100 * float(varying.max()):.2g} % of them at most",
        help="look at how it is read and scaled; leave out what says nothing",
        numbers=numbers,
    )


def _at_an_end(constant: list[int], trained: Columns) -> bool:
    """The last places of a sequence, or its first, may be padding in every sample."""
    length, count = len(trained.share), len(constant)
    return constant in (list(range(count)), list(range(length - count, length)))


def _enters(constant: list[int], trained: Columns, layers: tuple[FirstInput, ...]) -> bool:
    """Whether a layer takes these very places for its features: then they are no places in time."""
    return any(
        layer.kind != "linear"  # which may mix places in time
        and len(layer.spreads) == len(trained.share)
        and [place for place, spread in enumerate(layer.spreads) if spread <= _NONE * max(layer.spreads)] == constant
        for layer in layers
    )


def _woken(trained: Columns, woken: list[int], numbers: dict[str, float]) -> Finding:
    return Finding(
        f"{trained.kind} {woken[0]} of `{trained.place}` is {float(trained.common[woken[0]]):.4g} in all of "
        f"{trained.rows:,} training rows, and varies in validation",
        help="read and scale both splits in the same way",
        numbers=numbers,
    )
