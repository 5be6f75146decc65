"""The batch as the model sees it: pictures for images, rows for tables, text for tokens, bars for labels."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Self

import torch
from PIL import Image
from torch import Tensor

from mlcheck.core.finding import Figure, Location
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.batches import table_figure
from mlcheck.probe.measure.data.entering import entering
from mlcheck.probe.measure.data.normalised import Normalisation, normalisation
from mlcheck.probe.measure.data.vocabulary import Decode, decoder
from mlcheck.probe.measure.data.waveforms import is_waveform, waveforms
from mlcheck.probe.measure.measurement import Reach
from mlcheck.trial.trial import Trial

TILES = 16
_ROWS = 8
_COLUMNS = 12
_SMALL = 96
_FEW = 12
_WORDS = 120
_COLOURS = ((0, 0, 0), (230, 80, 40), (40, 120, 220), (60, 170, 80), (220, 180, 40), (150, 80, 190), (60, 180, 190))


@dataclass(frozen=True, slots=True)
class Gallery:
    """What enters the model and the loss in the first training step, with pictures. `inputs` are (name, shape)."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    samples: int
    facts: tuple[str, ...]
    figures: tuple[Figure, ...]
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        inputs, targets, place, looked_up = entering(trial)
        samples = max((tensor.shape[0] for _, tensor in inputs if tensor.ndim), default=1)
        label = _label_of_each(targets, samples)
        undo = normalisation(trial.loaders.get("training"))
        texts = looked_up.texts([tensor for _, tensor in inputs])
        figures = [
            _picture(name, tensor, label, trial if is_text else None, undo)
            for (name, tensor), is_text in zip(inputs, texts, strict=True)
        ]
        figures += [figure for pair in product(inputs, targets) if (figure := _masked(*pair))]
        figures.append(table_figure("what enters the model and the loss", inputs + targets))
        figures += [figure for name, tensor in targets if (figure := _histogram(name, tensor))]
        facts = tuple(f"{name} {_shape(tensor)} {_range(tensor)}" for name, tensor in inputs + targets)
        return cls(samples, facts, tuple(figure for figure in figures if figure), place)


def _picture(
    name: str, tensor: Tensor, label: list[str], speaks: Trial | None, undo: Normalisation | None
) -> Figure | None:
    """`speaks` has the words of integers; None where they are no ids of words."""
    if _is_image(tensor):
        return _images(name, tensor, label, undo)
    if is_waveform(tensor):
        return waveforms(name, tensor, label)
    if tensor.ndim == 2 and not tensor.is_floating_point():
        if speaks is None:
            return Figure(
                "text", f"{name}: the first {plural(len(tensor[:_ROWS]), 'sample')}", {"text": _numbers(tensor)}
            )
        return _tokens(name, tensor, label, decoder(speaks, int(tensor.max())) if tensor.numel() else None)
    if tensor.ndim == 2:
        columns = ["label", *(str(index) for index in range(min(tensor.shape[1], _COLUMNS)))]
        rows = [
            [caption, *(f"{v:.4g}" for v in row[:_COLUMNS].tolist())] for caption, row in zip(label, tensor[:_ROWS])
        ]
        return Figure("table", f"{name}: the first {plural(len(rows), 'sample')}", {"columns": columns, "rows": rows})
    if tensor.ndim == 3 and tensor.is_floating_point():
        return _signals(name, tensor)
    return None


def _is_image(tensor: Tensor) -> bool:
    if tensor.ndim != 4 or tensor.dtype is torch.bool:
        return False
    return tensor.shape[1] in (1, 2, 3, 4) or tensor.shape[-1] in (1, 3, 4) or min(tensor.shape[2:]) > 1


def _images(name: str, tensor: Tensor, label: list[str], undo: Normalisation | None = None) -> Figure:
    """As they were before the transform normalised them; else stretched from the smallest to the largest value.

    The title says which.
    """
    shown = tensor[:TILES].detach().float().cpu()
    if shown.shape[1] not in (1, 3) and shown.shape[-1] in (1, 3):
        shown = shown.permute(0, 3, 1, 2)
    if shown.shape[1] not in (1, 3):
        shown = shown[:, :1]
    shown = shown.nan_to_num(0.0, 0.0, 0.0)
    low, high = float(shown.min()), float(shown.max())
    before = undo.undone(shown) if undo else None
    told = f"{low:.4g} black to {high:.4g} white" if before is None else f"shown without the transform's {undo}"
    share = (shown - low) / max(high - low, 1e-12) if before is None else before
    tiles = [
        {"png": _png(image), "caption": caption} for image, caption in zip((share * 255).round().to(torch.uint8), label)
    ]
    return Figure("images", f"{name} right before the model, {told}", {"tiles": tiles})


def picture_of(sample: Tensor, undo: Normalisation | None = None) -> str:
    """One sample as a PNG in base64; empty where it is no picture."""
    if sample.ndim == 2:
        sample = sample[None]
    if sample.ndim != 3 or not _is_image(sample[None]) or min(sample.shape[1:]) < 4:
        return ""
    return str(_images("", sample[None], [""], undo).data["tiles"][0]["png"])


def pictures_alike(samples: list[Tensor]) -> list[str]:
    """Pictures of (channels, height, width) as PNG in base64, the same value as bright in all of them."""
    whole = torch.stack([sample[:1] if len(sample) not in (1, 3) else sample for sample in samples]).nan_to_num(0.0)
    low, high = float(whole.min()), float(whole.max())
    return [_png((255 * (one - low) / max(high - low, 1e-12)).round().to(torch.uint8)) for one in whole]


def _png(image: Tensor) -> str:
    array = image.permute(1, 2, 0).numpy()
    picture = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    picture.thumbnail((_SMALL, _SMALL))
    scale = max(1, 48 // max(picture.size))
    if scale > 1:
        picture = picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _tokens(name: str, tensor: Tensor, label: list[str], decode: Decode | None) -> Figure:
    """As text where the program keeps a vocabulary, with its label; as ids else."""
    if decode is None:
        told = f"{name}: token ids of the first {plural(len(tensor[:_ROWS]), 'sample')}"
        return Figure("text", told, {"text": _numbers(tensor)})
    texts = [decode(row[:_WORDS].tolist()) for row in tensor[:_ROWS]]
    lines = [f"{caption}: {text!r}" for caption, text in zip(label, texts)]
    return Figure("text", f"{name}: the first {plural(len(lines), 'sample')}, decoded", {"text": "\n".join(lines)})


def _numbers(tensor: Tensor) -> str:
    return "\n".join(" ".join(map(str, row[:40].tolist())) + (" …" if len(row) > 40 else "") for row in tensor[:_ROWS])


def _masked(given: tuple[str, Tensor], target: tuple[str, Tensor]) -> Figure | None:
    """Pictures with a class for each pixel laid over them; ignored ones in white."""
    (name, pictures), (_, mask) = given, target
    mask = mask[:, 0] if mask.ndim == 4 and mask.shape[1] == 1 else mask
    if not _is_image(pictures) or mask.ndim != 3 or mask.shape != (len(pictures), *pictures.shape[2:]):
        return None
    if mask.is_floating_point() and not bool((mask == mask.round()).all()):
        return None
    grey = pictures[:TILES].detach().float().cpu().nan_to_num(0.0, 0.0, 0.0).mean(1)
    low, high = float(grey.min()), float(grey.max())
    grey = (grey - low) / max(high - low, 1e-12)
    classes = mask[:TILES].detach().cpu().long()
    colours = torch.tensor(_COLOURS)[classes.clamp(0, 254) % len(_COLOURS)].movedim(-1, 1) / 255
    colours = colours.where((classes >= 0)[:, None] & (classes < 255)[:, None], torch.ones(()))
    blended = torch.where((classes == 0)[:, None], grey[:, None], 0.5 * grey[:, None] + 0.5 * colours)
    tiles = [
        {
            "png": _png((255 * one).round().to(torch.uint8)),
            "caption": ", ".join(map(str, torch.unique(found).tolist()[:6])),
        }
        for one, found in zip(blended, classes)
    ]
    return Figure("images", f"{name} with the classes of its pixels, background as it is", {"tiles": tiles})


def _signals(name: str, tensor: Tensor) -> Figure:
    """Sequences of feature vectors: the first few features of the first sample, along time."""
    along, across = tensor[0], min(4, tensor.shape[2])
    if tensor.shape[1] < tensor.shape[2]:
        along, across = tensor[0].T, min(4, tensor.shape[1])
    values = along[:200].detach().float().cpu().nan_to_num(0.0)
    series = [{"name": str(feature), "y": values[:, feature].tolist()} for feature in range(across)]
    return Figure("curves", f"{name}: sample 0", {"series": series, "x_label": "position", "y_label": "value"})


def _label_of_each(targets: list[tuple[str, Tensor]], samples: int) -> list[str]:
    """A caption a sample: its target where there is one number each, else its place in the batch."""
    for _, tensor in targets:
        if tensor.ndim and tensor.shape[0] == samples and tensor.numel() == samples:
            values = tensor.flatten().tolist()
            return [str(v) if isinstance(v, (int, bool)) else f"{v:.4g}" for v in values]
    return [f"sample {index}" for index in range(samples)]


def _histogram(name: str, tensor: Tensor) -> Figure | None:
    """How often each label occurs, or how values spread over twelve bins."""
    flat = tensor.detach().flatten().cpu()
    if flat.is_floating_point() and _are_few_whole_numbers(flat):  # a mask, or classes of a binary loss
        flat = flat.long()
    if flat.is_floating_point():
        flat = flat[flat.isfinite()].double()
        if flat.numel() < 2 or float(flat.max()) == float(flat.min()):
            return None
        counts, edges = torch.histogram(flat, bins=12)
        labels = [f"{edge:.3g}" for edge in edges[:-1].tolist()]
        return Figure("bars", f"{name}: values from", {"labels": labels, "values": counts.tolist()})
    found, times = torch.unique(flat, return_counts=True)
    if not 1 <= len(found) <= 40:
        return None
    return Figure(
        "bars", f"{name}: how often each occurs", {"labels": [str(v) for v in found.tolist()], "values": times.tolist()}
    )


def _are_few_whole_numbers(values: Tensor) -> bool:
    return bool((values == values.round()).all()) and values.numel() > 0 and float(values.max() - values.min()) < _FEW


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))}) {str(tensor.dtype).removeprefix('torch.')}"


def _range(tensor: Tensor) -> str:
    values = tensor.detach().double().flatten() if not tensor.is_complex() else tensor.abs().double().flatten()
    finite = values[values.isfinite()]
    return f"{float(finite.min()):.4g} to {float(finite.max()):.4g}" if finite.numel() else "no finite value"
