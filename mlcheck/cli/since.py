"""What is new since a revision: that revision is linted too, and what was found there is a baseline for this run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.core.report import Report
    from mlcheck.lint.run import LintSettings

# What decides which files are read and what they are called, besides the code itself.
_READ = (
    "*.py",
    "*.yaml",
    "*.yml",
    ":(glob)**/.gitignore",
    ":(glob)**/pyproject.toml",
    ":(glob)**/setup.py",
    ":(glob)**/setup.cfg",
)


@contextmanager
def baseline_of(revision: str, paths: Sequence[str], settings: LintSettings) -> Iterator[LintSettings]:
    """The settings with the findings of `revision` as their baseline. The checkout and its index stay as they are.

    Raises Mistake outside of a repository, for a revision or a path it does not have.
    """
    from mlcheck.experiment.run import run_lint_and_configs

    if revision.startswith("-"):
        raise Mistake(f"--new-since: `{revision}` is no revision")
    top = _git(".", "rev-parse", "--show-toplevel").strip()
    commit = _git(".", "rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    asked = [_inside(path, top) for path in paths]
    with TemporaryDirectory(prefix="mlcheck-") as folder:
        tree, known = os.path.join(folder, "tree"), os.path.join(folder, revision.replace(os.sep, "-"))
        _export(commit, top, tree, os.path.join(folder, "index"))
        here = os.path.join(tree, os.path.relpath(os.getcwd(), os.path.realpath(top)))
        os.makedirs(here, exist_ok=True)
        old = replace(settings, baseline=known, write_baseline=True, cache=_absolute(settings.cache))
        with chdir(here):
            run_lint_and_configs([path for path in asked if os.path.exists(path)], old)
        yield replace(settings, baseline=known)


def named(found: Report, revision: str, baseline: str) -> Report:
    """The report, its notices about the passing file told as about the revision."""
    told = (notice.partition(": `--write-baseline`")[0].replace(baseline, revision) for notice in found.notices)
    return replace(found, notices=tuple(told))


def _absolute(folder: str) -> str:
    return os.path.abspath(folder) if folder else ""


def _inside(path: str, top: str) -> str:
    """The path from here, so that it means the same place in another copy of the repository."""
    whole = os.path.realpath(path)
    if whole != os.path.realpath(top) and not whole.startswith(os.path.join(os.path.realpath(top), "")):
        raise Mistake(f"{path}: not in the repository {top}, so nothing is known of it at another revision")
    return os.path.relpath(whole, os.path.realpath(os.getcwd()))


def _export(commit: str, top: str, tree: str, index: str) -> None:
    """Write the files of a commit that lint reads below `tree`, by way of an index of their own."""
    environment = {**os.environ, "GIT_INDEX_FILE": index}
    _git(top, "read-tree", commit, environment=environment)
    listed = _git(top, "ls-files", "-z", "--", *_READ, environment=environment)
    _git(top, "checkout-index", "-z", "--stdin", f"--prefix={tree}/", given=listed, environment=environment)
    os.makedirs(tree, exist_ok=True)
    with open(os.path.join(tree, ".git"), "w", encoding="ascii"):
        pass  # where the search for .gitignore files ends


def _git(folder: str, *words: str, given: str = "", environment: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the revision is no option
            ["git", "-C", folder, *words],  # noqa: S607 - the git of the user
            input=given,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise Mistake("--new-since needs git, which is not installed") from None
    if done.returncode:
        raise Mistake(f"--new-since: git says: {' '.join(done.stderr.split()) or 'nothing'}")
    return done.stdout
