"""What an experiment's `entrypoint` starts: a trial class, or a program with its command line.

https://docs.determined.ai/0.38.0/reference/training/experiment-config-reference.html#entrypoint
"""

from __future__ import annotations

import re
import shlex

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern

_TRIAL = pattern(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PYTHON = pattern(r"(?:\S*/)?python[\d.]*")
_SETTING = pattern(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SHELL = frozenset([";", "|", "||", "&", ">", ">>", "<"])


class Launch(NamedTuple):
    """An entry point as `mlcheck probe` takes it, with its arguments; empty where it is another command."""

    entry: str = ""
    arguments: tuple[str, ...] = ()


def launched(entrypoint: object) -> Launch:
    """`model_def:Trial`, `python3 train.py --lr 0.1`, `python3 -m package.train`, and these behind a launch layer."""
    words = _after(_words(entrypoint), "&&")
    words = words[: next((place for place, word in enumerate(words) if word in _SHELL), len(words))]
    if len(words) == 1 and _TRIAL.fullmatch(words[0]):
        return Launch(words[0])
    while words and _SETTING.fullmatch(words[0]):
        words = words[1:]
    if len(words) > 2 and words[1] == "-m" and words[2].startswith("determined.launch."):
        words = _behind_layer(words[3:])
        if words[:1] == ["--trial"]:
            return Launch(words[1]) if len(words) > 1 and _TRIAL.fullmatch(words[1]) else Launch()
    by_python = bool(words) and _PYTHON.fullmatch(words[0]) is not None
    words = words[1:] if by_python else words
    while by_python and words and words[0].startswith("-") and words[0] != "-m":
        words = words[1:]
    if by_python and words[:1] == ["-m"]:
        return Launch(words[1], tuple(words[2:])) if len(words) > 1 else Launch()
    return Launch(words[0], tuple(words[1:])) if words and words[0].endswith(".py") else Launch()


def _words(entrypoint: object) -> list[str]:
    if isinstance(entrypoint, list):
        return [str(word) for word in entrypoint]
    try:
        return shlex.split(entrypoint) if isinstance(entrypoint, str) else []
    except ValueError:  # a quotation that does not end
        return []


def _behind_layer(words: list[str]) -> list[str]:
    """The command that a launch layer starts, behind the layer's own options."""
    rest = _after(words, "--")
    starts = [place for place, word in enumerate(rest) if word == "--trial" or word.endswith(".py")]
    pythons = [place for place, word in enumerate(rest) if _PYTHON.fullmatch(word)]
    return rest[min(starts + pythons) :] if starts or pythons else []


def _after(words: list[str], mark: str) -> list[str]:
    return words[len(words) - words[::-1].index(mark) :] if mark in words else words
