"""Which integers are ids of words: those that are looked up in the embedding of words, not positions or kinds."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Self

import torch
from torch import Tensor, nn

MANY = 64


class LookedUp:
    """While entered, keeps what is looked up in the models' embeddings."""

    def __init__(self, models: Iterable[nn.Module]) -> None:
        self._tables = [m for model in models for m in model.modules() if isinstance(m, nn.Embedding)]
        self._ids: list[tuple[int, Tensor]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for table in self._tables:
            self._stack.callback(table.register_forward_pre_hook(self._see).remove)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _see(self, table: Any, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], Tensor) and len(self._ids) < MANY:
            self._ids.append((table.num_embeddings, args[0].detach().clone()))

    def holds(self, tensor: Tensor) -> bool:
        """Whether this was looked up as it is."""
        return any(torch.equal(ids, tensor) for _, ids in self._ids)

    def texts(self, tensors: list[Tensor]) -> list[bool]:
        """Which of these may be text. All of them, where none was looked up as it is."""
        sizes = [max((size for size, ids in self._ids if torch.equal(ids, one)), default=0) for one in tensors]
        largest = max(sizes, default=0)
        return [size == largest for size in sizes]
