"""The functions of torch that clip gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.nn.utils import clip_grad

from mlcheck.probe.measure.simplified import replaced

_NAMES = ("_clip_grads_with_norm_", "clip_grad_value_")  # the first is what `clip_grad_norm_` ends in


@contextmanager
def clipping_by(changed: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Within, each of them is what `changed` makes of it."""
    with ExitStack() as stack:
        for name in _NAMES:
            function = changed(getattr(clip_grad, name))
            for owner in (clip_grad, torch.nn.utils):
                if hasattr(owner, name):
                    stack.enter_context(replaced(owner, name, function))
        yield
