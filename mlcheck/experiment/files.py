"""Which YAML files are experiment configs, and which are grids of simtony's runner."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.files.gitignore import Pattern, is_ignored, patterns_above, read_patterns

ENDINGS = (".yaml", ".yml")
_ENTRYPOINT = pattern(rb"^entrypoint\s*:", re.MULTILINE)
_SEARCHER = pattern(rb"^searcher\s*:", re.MULTILINE)
_VALUES = pattern(rb"^hyperparameters\s*:", re.MULTILINE)
_FILLED_IN = pattern(rb"\{\{|\{%|\$\{")
_TEMPLATE = pattern(rb"^te\w{4,7}\s*:", re.MULTILINE)  # or nearly so: a misspelt one is told
_OF_A_GRID = pattern(rb"^(resource|default|alias)s?\s*:", re.MULTILINE)
_PARTS_OF_A_GRID = tuple(
    pattern(part, re.MULTILINE) for part in (rb"^template\s*:", rb"^resource\s*:", rb"^---\s*$", rb"\{_output\}")
)


def configs(given: str, patterns: tuple[Pattern, ...] | None = None) -> Iterator[str]:
    """The experiment configs and grids at or below a folder, hidden and ignored folders left out."""
    if not os.path.isdir(given):
        return
    patterns = (patterns_above(given) if patterns is None else patterns) + read_patterns(given)
    for entry in sorted(os.scandir(given), key=lambda entry: entry.name):
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name.startswith(".") or is_ignored(os.path.abspath(entry.path), is_folder, patterns):
            continue
        if is_folder:
            if entry.name not in {"node_modules", "site-packages"} and not _is_environment(entry.path):
                yield from configs(entry.path, patterns)
        elif entry.name.endswith(ENDINGS) and (is_experiment(data := read(entry.path)) or may_be_grid(data)):
            yield os.path.normpath(entry.path)


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg")) or os.path.exists(os.path.join(folder, "conda-meta"))


def is_experiment(data: bytes) -> bool:
    """Whether it has two of the three sections that only an experiment has together."""
    return sum(bool(one.search(data)) for one in (_ENTRYPOINT, _SEARCHER, _VALUES)) > 1


def is_template(data: bytes) -> bool:
    """Whether another program makes a config of it first (`{{ lr }}`), so that it need not be YAML."""
    return bool(_FILLED_IN.search(data))


def may_be_grid(data: bytes) -> bool:
    """Whether a grid is worth being looked for: what it is shows when it is parsed."""
    return bool(_TEMPLATE.search(data) and _OF_A_GRID.search(data) and not _ENTRYPOINT.search(data))


def is_grid(data: bytes) -> bool:
    """Whether it is one beyond doubt, even where it is no YAML."""
    return all(part.search(data) for part in _PARTS_OF_A_GRID) and not is_template(data)


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
