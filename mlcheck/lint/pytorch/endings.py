"""Networks of libraries that end with the activation they are asked for."""

from __future__ import annotations

from mlcheck.lint.values import Const, Object

_LIBRARY = "segmentation_models_pytorch."
_ENDINGS = {"softmax": "softmax", "softmax2d": "softmax", "sigmoid": "sigmoid", "logsoftmax": "log_softmax"}


def activation(module: Object) -> str:
    """`softmax` of `smp.Unet(..., activation="softmax2d")`; "" for none, and where there may be a second head."""
    asked = module.kwargs.get("activation")
    if not module.type.startswith(_LIBRARY) or module.kwargs.keys() & {"aux_params", "**"}:
        return ""
    return _ENDINGS.get(asked.value, "") if isinstance(asked, Const) and isinstance(asked.value, str) else ""
