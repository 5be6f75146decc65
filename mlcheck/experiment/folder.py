"""The files of a code folder that Determined's command line sends: all but those that `.detignore` names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from mlcheck.lint.files.gitignore import Pattern, is_ignored, parse_pattern

_NEVER_SENT = (
    *("__pycache__/", "*.py[co]", "*$py.class", ".git/", ".vscode/", ".idea/", ".mypy_cache/", "/shared_fs"),
    *("terraform", "terraform_data", "terraform.tfstate*", "terraform.tfvars*", ".terraform*"),
)
_MOST_FILES = 100_000


def sent_files(folder: str) -> Iterator[tuple[str, int]]:
    """Path and size of each; of a very large folder the first ones."""
    patterns = _patterns(_NEVER_SENT, folder)
    try:
        with open(os.path.join(folder, ".detignore"), encoding="utf-8", errors="replace") as file:
            patterns += _patterns(file, folder)
    except OSError:
        pass
    count = 0
    for here, folders, files in os.walk(folder):
        at = os.path.abspath(here)
        folders[:] = [name for name in folders if not is_ignored(os.path.join(at, name), True, patterns)]
        for name in files:
            path = os.path.join(here, name)
            if not is_ignored(os.path.join(at, name), False, patterns) and os.path.isfile(path):
                yield path, os.path.getsize(path)
                count += 1
        if count > _MOST_FILES:
            return


def _patterns(lines: Iterable[str], folder: str) -> tuple[Pattern, ...]:
    return tuple(pattern for line in lines if (pattern := parse_pattern(line, folder)))
