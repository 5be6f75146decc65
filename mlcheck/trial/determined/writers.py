"""Stands in for TensorBoard writers: every method of a SummaryWriter exists, nothing is written."""

from __future__ import annotations

from typing import Any


def silent() -> Any:
    """A method that does nothing, whatever it is given."""

    def ignore(_writer: object, *_args: object, **_keywords: object) -> None:
        """Take what the real method takes."""

    return ignore


class SilentWriter:
    """Has the methods of `torch.utils.tensorboard.SummaryWriter`, so that a misspelt one still fails."""

    add_scalar = add_scalars = add_tensor = add_histogram = add_histogram_raw = add_pr_curve = silent()
    add_image = add_images = add_image_with_boxes = add_figure = add_video = add_audio = silent()
    add_text = add_graph = add_onnx_graph = add_embedding = add_mesh = add_hparams = silent()
    add_pr_curve_raw = add_custom_scalars = add_custom_scalars_marginchart = silent()
    add_custom_scalars_multilinechart = flush = close = __exit__ = silent()

    def __enter__(self) -> SilentWriter:
        return self


class TorchWriter:
    """Stands in for `determined.tensorboard.metric_writers.pytorch.TorchWriter`."""

    add_scalar = reset = flush = close = silent()

    def __init__(self) -> None:
        self.writer = SilentWriter()
