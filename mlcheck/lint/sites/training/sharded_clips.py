"""Gradients of a sharded model that each rank clips by the norm of its own shard."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites

_SHARDED = "torch.distributed.fsdp.FullyShardedDataParallel"
_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm")


def sharded_clips(sites: Sites) -> Iterator[tuple[Call, ast.expr]]:
    """`clip_grad_norm_(model.parameters(), 1.0)` of a `model` that is certainly FSDP's, with the model."""
    if not any(True for _ in sites.mentioning(["FullyShardedDataParallel"])):
        return
    for clip in sites.calls(*_CLIPS):
        match clip.argument("parameters", 0):
            case ast.Call(func=ast.Attribute(value=model, attr="parameters"), args=[]):
                made = origins(clip.file, model, clip.context)
                sharded = [each for each in made if each.name == _SHARDED and "NO_SHARD" not in each.file.text]
                if made and len(sharded) == len(made):
                    yield clip, model
