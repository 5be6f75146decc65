"""Lays out the samples whose label is another than that of those most like them: if it is wrong, a person sees."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.labels import Labels
from mlcheck.probe.measure.data.neighbours import Consensus, consensus, features
from mlcheck.probe.measure.data.one_by_one import laid_out
from mlcheck.probe.measure.data.passes import Passes
from mlcheck.probe.measure.tree import leaves

SHOWN = 12
JUDGED = 0.3


def check(labels: Labels, passes: Passes) -> Verdict:
    use = next((use for use in labels.uses if use.one_a_sample and use.field), None)
    table = features(passes.training.kept, use.field) if use else None
    if use is None or table is None:
        return Verdict(Outcome.SKIP, reason="there is no class label a sample beside inputs of one size")
    found = consensus(table, use.ignored)
    if found.judged < JUDGED * found.samples:
        reason = "the inputs as they are do not tell the classes apart, so no label stands out"
        return Verdict(Outcome.SKIP, reason=reason)
    if not found.suspects:
        reason = f"of {found.judged} labels whose neighbours agree, none differs from theirs"
        return Verdict(Outcome.SKIP, reason=reason, looked_at=found.judged)
    told = f"{len(found.suspects)} of {found.judged} labels differ from those of the samples most like theirs"
    figure = laid_out("the most suspicious labels", *_suspects(passes.training.kept, use.field, table[1], found))
    return Verdict(
        Outcome.PENDING,
        told,
        reason="a person has to look: are these labels wrong?",
        figures=(figure,) if figure else (),
        looked_at=found.judged,
    )


def _suspects(batches: list[Any], field: str, y: Tensor, found: Consensus) -> tuple[list[Tensor], list[str]]:
    """The input of each, by its place in the pass, and what there is to compare."""
    said = dict(zip(found.suspects[:SHOWN], found.said))
    inputs, captions, start = [], [], 0
    for batch in batches:
        tensors = {name: tensor for name, tensor in leaves(batch) if tensor.ndim}
        size = len(tensors[field])
        rows = [tensor for name, tensor in tensors.items() if name != field and len(tensor) == size]
        for place in range(start, start + size):
            if place in said and rows:
                inputs.append(max(rows, key=Tensor.numel)[place - start].detach().cpu())
                captions.append(f"{int(y[place])}, neighbours {said[place]}")
        start += size
    return inputs, captions
