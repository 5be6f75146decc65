"""Single samples laid out for a person: tiles for pictures, lines for text and ids, rows for tables."""

from __future__ import annotations

from torch import Tensor

from mlcheck.core.finding import Figure
from mlcheck.probe.measure.data.gallery import picture_of
from mlcheck.probe.measure.data.vocabulary import Decode

_COLUMNS = 8
_WORDS = 80


def laid_out(title: str, inputs: list[Tensor], captions: list[str], decode: Decode | None = None) -> Figure | None:
    """Each sample under its caption; None for what cannot be shown in little room."""
    if not inputs:
        return None
    pictures = [picture_of(sample) for sample in inputs]
    if all(pictures):
        tiles = [{"png": png, "caption": caption} for png, caption in zip(pictures, captions)]
        return Figure("images", title, {"tiles": tiles})
    if all(sample.ndim == 1 and not sample.is_floating_point() for sample in inputs):
        ids = [sample[:_WORDS].tolist() for sample in inputs]
        texts = [repr(decode(one)) if decode else " ".join(map(str, one)) for one in ids]
        return Figure("text", title, {"text": "\n".join(f"{c}: {text}" for c, text in zip(captions, texts))})
    if all(sample.ndim == 1 for sample in inputs):
        width = min(_COLUMNS, max(map(len, inputs)))
        rows = [[caption, *(f"{v:.4g}" for v in one[:width].tolist())] for caption, one in zip(captions, inputs)]
        return Figure("table", title, {"columns": ["sample", *map(str, range(width))], "rows": rows})
    return Figure("table", title, {"columns": ["sample"], "rows": [[caption] for caption in captions]})
