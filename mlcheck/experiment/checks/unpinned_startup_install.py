"""Finds packages that a `startup-hook.sh` installs without a version: the next restart may get others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.experiment.seen import Experiment

_INSTALL = re.compile(r"\bpip3?\s+install\b(?P<rest>[^;&|#\n]*)")
_WITH_VALUE = {
    *("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-i", "--index-url", "--extra-index-url"),
    *("-f", "--find-links", "-t", "--target", "--timeout", "--trusted-host", "--prefix", "--root", "--proxy"),
    *("--retries", "--cache-dir", "--progress-bar", "--src", "--platform", "--python-version", "--global-option"),
}
_BUILDS = {"pip", "setuptools", "wheel"}
_PINNED = re.compile(r"===?|@\s*\S")
_COMMIT = re.compile(r"\.git@[0-9a-f]{7,40}|@v?\d[\w.]*(?:#|$)|/archive/|\.(?:whl|tar\.gz|zip)(?:#|$)")


def check(experiment: Experiment) -> Iterator[Finding]:
    for path in experiment.beside():
        for number, line in _logical_lines(path):
            if line.lstrip().startswith("#"):
                continue
            for match in _INSTALL.finditer(line):
                names = list(_unpinned(match["rest"]))
                if names:
                    told = ", ".join(f"`{name}`" for name in names)
                    yield Finding(
                        f"{told} {'is' if len(names) == 1 else 'are'} installed in whatever version is the newest",
                        Location(path, number, match.start() + 1),
                        help="pin the versions (`name==1.2.3`), so that a trial that starts again is the same",
                    )


def _logical_lines(path: str) -> Iterator[tuple[int, str]]:
    """Lines with those that a backslash continues."""
    with open(path, encoding="utf-8", errors="replace") as file:
        begun, text = 0, ""
        for number, line in enumerate(file, 1):
            begun = begun or number
            text += line.rstrip("\n")
            if text.endswith("\\"):
                text = f"{text[:-1]} "
                continue
            yield begun, text
            begun, text = 0, ""
        if text:
            yield begun, text


def _unpinned(arguments: str) -> Iterator[str]:
    try:
        words = shlex.split(arguments)
    except ValueError:
        return
    if any(word in {"-c", "--constraint"} for word in words):
        return
    skip = False
    for word in words:
        if skip or word.startswith("-"):
            skip = not skip and word in _WITH_VALUE
            continue
        if "$" in word or "`" in word or word.startswith((".", "/", ">", "<")) or word in _BUILDS or word.isdigit():
            continue
        is_link = "://" in word
        if not (_COMMIT.search(word) if is_link else _PINNED.search(word)):
            yield re.split(r"[<>=!~;\[ ]", word)[0] if not is_link else word
