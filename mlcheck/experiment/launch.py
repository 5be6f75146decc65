"""What an experiment's `entrypoint` starts: a trial class, or a program with its command line.

https://docs.determined.ai/0.38.0/reference/training/experiment-config-reference.html#entrypoint
"""

from __future__ import annotations

import difflib
import os
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


def misspelt_file(started: str, config: str) -> tuple[str, str] | None:
    """The name of a file that is not there, with that of the one beside the config that may be meant."""
    folder = os.path.dirname(config) or os.curdir
    above = [folder, os.path.join(folder, os.pardir), os.path.join(folder, os.pardir, os.pardir)]
    if not started.endswith(".py") or "/" in started or "." in started[:-3]:
        return None
    if any(_exists(one, started) for one in above):
        return None
    files = [name for name in sorted(os.listdir(folder)) if name.endswith(".py")]
    same = [name for name in files if name.lower() == started.lower()]
    near = same or difflib.get_close_matches(started, files, n=1, cutoff=0.8)
    return (started, near[0]) if near else None


def _exists(folder: str, file: str) -> bool:
    return os.path.exists(os.path.join(folder, file)) or os.path.isdir(os.path.join(folder, file.removesuffix(".py")))


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
