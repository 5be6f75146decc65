"""From a report to what is printed, what is written, and the exit code."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from mlcheck.cli.streams import columns
from mlcheck.core.atomic import replace_file
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.core.outcome import Outcome
    from mlcheck.core.report import Report

CLEAN, FINDINGS, MISUSE, INTERRUPTED = 0, 1, 2, 130
FORMATS = ("text", "concise", "json", "sarif", "junit", "github", "gitlab", "markdown", "html")


def rendered(report: Report, form: str, strict: bool, stream: TextIO | None = None, verbose: bool = False) -> str:
    """The report in one of FORMATS; colours and the width of text are those of `stream`."""
    if form == "json":
        from mlcheck.report import json

        return json.render(report)
    from mlcheck.report.bounds import bounded

    report = bounded(report)
    if form == "junit":
        from mlcheck.report import junit

        return junit.render(report, counted(report, strict))
    if form in ("sarif", "github", "gitlab"):
        from mlcheck.report import github, gitlab, sarif

        beside_code = {"sarif": sarif.render, "github": github.render, "gitlab": gitlab.render}
        return beside_code[form](report, checkout())
    if form in ("markdown", "html"):
        from mlcheck.report import html, markdown

        return markdown.render(report) if form == "markdown" else html.render(report)
    return _text(report, form, stream, verbose)


def _text(report: Report, form: str, stream: TextIO | None, verbose: bool) -> str:
    color = bool(stream) and wants_color(stream)
    if form == "concise" or report.command == "lint":
        from mlcheck.report import lint_text

        if form == "concise":
            return lint_text.concise(report)
        return lint_text.render(report, color, width(), folded=stream is not None and stream.isatty())
    from mlcheck.report import terminal

    return terminal.render(report, width=width(), color=color, verbose=verbose)


def checkout() -> str:
    """The root of the checkout around the working directory: forges want paths from there."""
    folder = os.getcwd()
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return os.getcwd()
        folder = parent
    return folder


def write(path: str, text: str) -> None:
    """Replace a file whole or not at all: an interrupted run leaves the earlier report intact."""
    try:
        replace_file(path, text)
    except OSError as error:
        raise Mistake(f"{path}: cannot be written: {error.strerror}") from error


def require_writable(*paths: str) -> None:
    """Raises Mistake for a file that cannot be written, before minutes are spent on what would be lost."""
    for path in filter(None, paths):
        folder = os.path.dirname(os.path.realpath(path))
        if os.path.isdir(path):
            raise Mistake(f"{path}: cannot be written: it is a folder")
        if not os.path.isdir(folder):
            raise Mistake(f"{path}: cannot be written: there is no folder {folder}")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise Mistake(f"{path}: cannot be written: permission denied")


def counted(report: Report, strict: bool) -> set[Outcome]:
    """The outcomes that make exit code 1: lint counts warnings, the others only when they are strict."""
    from mlcheck.core.outcome import Outcome

    found = {Outcome.FAIL}
    if strict or report.command == "lint":
        found.add(Outcome.WARN)
    if strict and report.command != "lint":
        found |= {Outcome.PENDING, Outcome.INCONCLUSIVE}
    return found


def exit_code(report: Report, strict: bool, exit_zero: bool = False) -> int:
    """2 where a check broke, even if another way decided its item: what broke was not looked at."""
    if any(result.outcome.value == "error" for result in report.results):
        return MISUSE
    failing = counted(report, strict)
    found = any(item.outcome in failing for item in report.items())
    if strict and report.command == "lint":
        from mlcheck.lint.suppress import IDLE_COMMENTS

        found = found or any(result.findings for result in report.results) or IDLE_COMMENTS in report.environment
    return FINDINGS if found and not exit_zero else CLEAN


def wants_color(stream: TextIO | None) -> bool:
    """https://no-color.org and FORCE_COLOR, else whether a person is looking."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream is not None and stream.isatty())


def width() -> int:
    """Of the page that text is laid out for."""
    return columns(100)


def say(text: str) -> None:
    """Print all of it; a reader that has gone is a matter for `main`, a full disk a mistake."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer would raise again
        raise Mistake(f"standard output cannot be written: {error.strerror}") from error
