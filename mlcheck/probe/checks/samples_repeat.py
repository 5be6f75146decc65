"""Judges whether different numbers ask for different samples."""

from __future__ import annotations

import math
from collections import Counter

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.data.sample_tensors import equal_share
from mlcheck.probe.measure.data.samples import Samples
from mlcheck.probe.measure.data.split import Split
from mlcheck.probe.measure.data.told_apart import are_told_apart
from mlcheck.probe.measure.tree import leaves

MANY = 0.2
NEARLY_ALL = 0.5
ALL_BUT_A_FEW = 0.9
FEW_SAMPLES = 50
FEW_BATCHES = 4
NEARLY_ALL_BATCHES = 0.9
LONG = 32
FEW_OF_A_CLASS = 10
EVEN = 1.1


def check(seen: Samples | None, passes: Passes | None) -> Verdict:
    if seen is None:
        return _of_a_stream(passes)
    if passes and passes.weighed and passes.weighed[0] < passes.weighed[1]:
        return _never_drawn(*passes.weighed)
    splits = [split for split in (seen.training, seen.validation) if split and len(split.digests) >= FEW_SAMPLES]
    if not splits:
        return Verdict(Outcome.SKIP, reason=f"there are fewer than {FEW_SAMPLES} samples")
    shares = [(split, equal_share(split.digests.values())) for split in splits]
    findings = [
        (split, share) for split, share in shares if share > MANY and _is_rich(split) and not _evens_classes(split)
    ]
    if findings and all(_is_a_batch(split, passes) for split, _ in findings):
        reason = "all indices give one sample, and a batch is no more than that: it may be all the data, as a graph is"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    if not findings:
        told = "; ".join(f"{len(set(s.digests.values())):,} different {s.name} samples of {s.read:,}" for s in splits)
        return Verdict(Outcome.PASS, told, looked_at=sum(split.read for split in splits))
    if all(split.varying and share > ALL_BUT_A_FEW for split, share in findings):
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason="with the same random numbers nearly all indices give the same samples, with others others: the "
            "data set draws its samples at random, as for pairs, or ignores its index and augments",
        )
    certain = [s for s, share in findings if s.continuous and share > NEARLY_ALL and _follows_index(s)]
    found = tuple(_fault(split) for split, _ in findings)
    return Verdict(
        Outcome.FAIL if certain else Outcome.WARN,
        found[0].message,
        findings=found,
        looked_at=sum(split.read for split in splits),
    )


def _never_drawn(weighed: int, length: int) -> Verdict:
    message = f"WeightedRandomSampler has {weighed:,} weights for {length:,} samples: the others are never drawn"
    finding = Finding(message, help="give a weight to every sample: weight_of_class[labels], not weight_of_class")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=length)


def _of_a_stream(passes: Passes | None) -> Verdict:
    """Of data that no index asks for, whether all batches of both passes are one and the same."""
    digests = passes.training.digests + passes.again.digests if passes else []
    if passes is None or not passes.stream or len(passes.training.digests) < FEW_BATCHES:
        return Verdict(Outcome.SKIP, reason="the training loader does not read from a data set that can be asked")
    again = Counter(digests).most_common(1)[0][1]
    if again < NEARLY_ALL_BATCHES * len(digests):
        told = f"{len(set(digests)):,} different batches of {len(digests):,}"
        return Verdict(Outcome.PASS, told, looked_at=len(digests))
    message = f"the stream gives one batch again and again: {again:,} of {len(digests):,} are equal in every bit"
    finding = Finding(message, help="look at where __iter__ seeds its generator, or begins anew")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=len(digests))


def _is_a_batch(split: Split, passes: Passes | None) -> bool:
    seen = passes and (passes.training if split.name == "training" else passes.validation)
    if not seen or not seen.kept or len(set(split.digests.values())) > 1:
        return False
    return sum(map(math.prod, (shape for _, shape in split.example))) == sum(t.numel() for _, t in leaves(seen.kept[0]))


def _is_rich(split: Split) -> bool:
    """Whether samples hold many numbers, or fractions of their own: a few whole ones, or codes, repeat by chance.

    But not the same ones in all samples.
    """
    few = 2 if len(set(split.digests.values())) == 1 else LONG
    if any(tensor.numel() >= few for tensor in split.kept.values()):
        return True
    return split.continuous and (_follows_index(split) or are_told_apart(split))


def _evens_classes(split: Split) -> bool:
    """Whether samples of rarer classes alone were repeated, to no more than there are of the commonest."""
    samples: dict[bytes, Counter[bytes]] = {}
    for index, sample in split.digests.items():
        samples.setdefault(split.labels[index], Counter())[sample] += 1
    if len(samples) < 2 or len(samples) * FEW_OF_A_CLASS > len(split.digests):
        return False
    commonest = max(samples.values(), key=len)
    most = EVEN * len(commonest)
    return commonest.total() == len(commonest) and all(of_class.total() <= most for of_class in samples.values())


def _repeats(split: Split) -> list[tuple[int, int]]:
    """Every index that gives what an earlier one gave, behind the first that did."""
    first: dict[bytes, int] = {}
    found = ((first.setdefault(split.digests[index], index), index) for index in sorted(split.digests))
    return [(before, index) for before, index in found if before != index]


def _follows_index(split: Split) -> bool:
    """Whether the index alone says which samples are equal: it wraps, is divided, is cut off, or hardly counts.

    Rows that were drawn again before they were stored are equal here and there.
    """
    repeats, indices = _repeats(split), split.digests
    distinct, gaps = len(indices) - len(repeats), [index - before for before, index in repeats]
    wrapped, divided = math.gcd(*gaps), max(gaps) + 1
    if distinct in (len({index % wrapped for index in indices}), len({index // divided for index in indices})):
        return True
    return len({before for before, _ in repeats}) == 1 or distinct < (1 - ALL_BUT_A_FEW) * len(indices)


def _fault(split: Split) -> Finding:
    repeats = _repeats(split)
    distinct, pair = len(split.digests) - len(repeats), repeats[0]
    return Finding(
        f"{split.read:,} {split.name} indices give only {distinct:,} different samples: sample {pair[1]} is sample "
        f"{pair[0]} again, in every bit",
        help="look at how __getitem__ uses its index"
        if _follows_index(split)
        else "look for rows that the data holds again, and keep all copies of one in the same split",
        numbers={"read": float(split.read), "different": float(distinct), "index": float(pair[1])},
    )
