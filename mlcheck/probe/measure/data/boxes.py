"""Pictures with the boxes of a detection-like target drawn on them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from PIL import Image, ImageDraw
from torch import Tensor

from mlcheck.core.finding import Figure
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.gallery import TILES, picture_of
from mlcheck.probe.measure.data.normalised import Normalisation, normalisation
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

_NAMES = {"boxes", "bbox", "bboxes"}
_COLOUR = (230, 80, 40)
_MOST = 40


@dataclass(frozen=True, slots=True)
class Boxed:
    """The pictures of the first batch with their boxes."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 2

    figure: Figure

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one batch, whatever the limit
        figure = boxed(first_batches(trial, 1)[0], normalisation(trial.loaders.get("training")))
        if figure is None:
            raise NotMeasured("the targets hold no boxes beside pictures")
        return cls(figure)


def boxed(batch: Any, undo: Normalisation | None) -> Figure | None:
    """Corner boxes (x1, y1, x2, y2), in pixels or shares of the picture; None without any, or for another form."""
    found = list(leaves(batch))
    pictures, targets = list(_pictures(found)), list(_boxes(found))
    if not targets or len(pictures) != len(targets):
        return None
    tiles = []
    for picture, (boxes, labels) in list(zip(pictures, targets))[:TILES]:
        corners = _corners(boxes, picture)
        if corners is None:
            return None
        told = ", ".join(dict.fromkeys(labels)) or plural(len(corners), "box")
        tiles.append({"png": _drawn(picture_of(picture, undo), corners), "caption": told})
    return Figure("images", "pictures with their boxes, read as x1, y1, x2, y2, and their labels", {"tiles": tiles})


def _pictures(found: list[tuple[str, Tensor]]) -> Iterator[Tensor]:
    """One a sample: the rows of a batch of pictures, or a list of them."""
    whole = next((leaf for _, leaf in found if leaf.ndim == 4 and picture_of(leaf[0])), None)
    if whole is not None:
        yield from whole
        return
    yield from (leaf for _, leaf in found if leaf.ndim == 3 and leaf.shape[0] in (1, 3) and picture_of(leaf))


def _boxes(found: list[tuple[str, Tensor]]) -> Iterator[tuple[Tensor, list[str]]]:
    """The boxes of each sample with their labels; of a padded batch those with an area."""
    named = dict(found)
    for name, leaf in found:
        folder, _, last = name.rpartition(".")
        if last not in _NAMES or leaf.shape[-1:] != (4,):
            continue
        labels = named.get(f"{folder}.labels" if folder else "labels")
        for boxes, marks in [(leaf, labels)] if leaf.ndim == 2 else [(one, None) for one in leaf]:
            own = marks.flatten().tolist() if marks is not None and marks.numel() == len(boxes) else []
            yield boxes.detach().float().cpu(), [str(one) for one in own]


def _corners(boxes: Tensor, picture: Tensor) -> list[tuple[float, float, float, float]] | None:
    """As shares of the picture; None where some are no corners of a box in it."""
    height, width = picture.shape[-2:]
    kept = boxes[(boxes != 0).any(1)][:_MOST]
    if not len(kept):
        return []
    shares = kept if float(kept.max()) <= 1 else kept / kept.new_tensor([width, height, width, height])
    inside = bool((shares >= -0.01).all()) and bool((shares <= 1.01).all())
    ordered = bool((shares[:, 2:] > shares[:, :2]).all())
    return [(x, y, z, w) for x, y, z, w in shares.tolist()] if inside and ordered else None


def _drawn(png: str, corners: list[tuple[float, float, float, float]]) -> str:
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    pen, (width, height) = ImageDraw.Draw(picture), picture.size
    far = (width - 1, height - 1) * 2
    for corner in corners:
        pen.rectangle([round(share * most) for share, most in zip(corner, far)], outline=_COLOUR)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")
