"""The words behind token ids, where the program keeps them: a tokenizer, a dict either way, a list of words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from mlcheck.probe.measure.place import is_users
from mlcheck.trial.trial import Trial

FEW = 5
SPARE = 8

Decode = Callable[[list[int]], str]


def decoder(trial: Trial, largest: int) -> Decode | None:
    """How to write ids up to `largest` as text; None where the program holds no vocabulary that fits its embedding."""
    sizes = {
        module.num_embeddings
        for model in trial.models.values()
        for module in model.modules()
        if isinstance(module, nn.Embedding) and module.num_embeddings > largest
    }
    for value in _candidates(trial):
        words = _words(value)
        if words and any(max(words) <= size - 1 and size - SPARE <= len(words) for size in sizes):
            return _joined(words)
        if _is_tokenizer(value):
            return _by_tokenizer(value)
    return None


def _candidates(trial: Trial) -> Iterator[Any]:
    """Attributes of the user's objects and data sets, and the globals of the modules they are written in."""
    datasets = [getattr(loader, "dataset", None) for loader in trial.loaders.values()]
    roots = [root for root in (*trial.objects, *datasets, *trial.models.values()) if root is not None]
    for root in roots:
        yield from list(getattr(root, "__dict__", {}).values())
    for name in dict.fromkeys(type(root).__module__ for root in roots):
        module = sys.modules.get(name)
        if module is not None and is_users(getattr(module, "__file__", None) or "<builtin>"):
            yield from list(vars(module).values())


def _words(value: Any) -> dict[int, str]:
    """By id; empty for what is no vocabulary."""
    try:
        if isinstance(value, Mapping) and len(value) >= FEW:
            pairs = list(value.items())
            if all(isinstance(k, str) and type(v) is int for k, v in pairs):
                return {number: word for word, number in pairs}
            if all(type(k) is int and isinstance(v, str) for k, v in pairs):
                return dict(pairs)
        if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and len(value) >= FEW:
            if all(isinstance(word, str) for word in value) and len(set(value)) == len(value):
                return dict(enumerate(value))
    except Exception:  # a container of its own kind
        return {}
    return {}


def _is_tokenizer(value: Any) -> bool:
    return (
        not isinstance(value, (str, bytes, type, nn.Module))
        and "token" in type(value).__name__.lower()
        and callable(getattr(value, "decode", None))
        and callable(getattr(value, "encode", None))
    )


def _joined(words: dict[int, str]) -> Decode:
    between = "" if all(len(word) == 1 for word in words.values()) else " "
    return lambda ids: between.join(words.get(number, "?") for number in ids)


def _by_tokenizer(tokenizer: Any) -> Decode:
    def decode(ids: list[int]) -> str:
        try:
            return str(tokenizer.decode(ids))
        except Exception:  # ids that the tokenizer does not know
            return " ".join(map(str, ids))

    return decode
