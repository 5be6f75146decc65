"""What networks of libraries end with, and layers after which an ending is still what it was."""

from __future__ import annotations

from mlcheck.lint.pytorch.graph_layers import ends_linear
from mlcheck.lint.values import Const, Object

_LIBRARY = "segmentation_models_pytorch."
_ENDINGS = {"softmax": "softmax", "softmax2d": "softmax", "sigmoid": "sigmoid", "logsoftmax": "log_softmax"}

_AVERAGED = ("raw", "softmax", "sigmoid")
_AVERAGING: tuple[str, ...] = ("Upsample", "PixelShuffle", "AvgPool", "AdaptiveAvgPool")
_AVERAGING += ("interpolate", "upsample", "pixel_shuffle", "avg_pool1d", "avg_pool2d", "avg_pool3d")


def activation(module: Object) -> str:
    """`softmax` of `smp.Unet(..., activation="softmax2d")`, `raw` of `GCNConv(16, 7)`; "" for none known.

    Nothing is known where there may be a second head.
    """
    if ends_linear(module.type, module.kwargs):
        return "raw"
    asked = module.kwargs.get("activation")
    if not module.type.startswith(_LIBRARY) or module.kwargs.keys() & {"aux_params", "**"}:
        return ""
    return _ENDINGS.get(asked.value, "") if isinstance(asked, Const) and isinstance(asked.value, str) else ""


def averages(name: str, kind: str) -> bool:
    """Whether a layer or function takes means of neighbours, of a kind that these are of still."""
    return name.startswith(_AVERAGING) and kind in _AVERAGED
