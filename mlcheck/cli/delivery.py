"""A report on its way to the reader, files first, then the terminal; and back from its file."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from mlcheck.cli.output import exit_code, rendered, say, write
from mlcheck.config import Config
from mlcheck.core.dataclasses import replace
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.core.report import Report


def tell(found: Report, arguments: argparse.Namespace, strict: bool = False) -> None:
    """Print the report in the format asked for; or write it so, and print it as text."""
    if arguments.output:
        write(arguments.output, rendered(found, arguments.format, strict, verbose=arguments.verbose))
        if arguments.format == "text":
            return
    form = "text" if arguments.output else arguments.format
    say(rendered(found, form, strict, sys.stdout, arguments.verbose))


def deliver(found: Report, arguments: argparse.Namespace, html_path: str, json_path: str, config: Config) -> int:
    """Write the files first, so that nothing is lost when the terminal is; then print."""
    strict = arguments.strict or config.strict
    if json_path:
        write(json_path, rendered(found, "json", strict))
    if html_path:
        write(html_path, rendered(found, "html", strict))
        if arguments.format == "text" or arguments.output:
            from mlcheck.report.terminal import WHOLE

            here = f"mlcheck report {shlex.quote(json_path)} --verbose" if json_path else "--verbose"
            shown = replace(found, notices=(*found.notices, f"{WHOLE}{html_path}; here: `{here}`"))
            _tell_with_page(found, shown, arguments, strict)
            return exit_code(found, strict)
    tell(found, arguments, strict)
    return exit_code(found, strict)


def _tell_with_page(found: Report, shown: Report, arguments: argparse.Namespace, strict: bool) -> None:
    """What is printed says where the page is; what is written does not."""
    if arguments.output:
        write(arguments.output, rendered(found, arguments.format, strict, verbose=arguments.verbose))
    if not arguments.output or arguments.format != "text":
        say(rendered(shown, "text", strict, sys.stdout, arguments.verbose))


def saved_report(path: str) -> Report:
    """What `--json` wrote. Raises Mistake for anything else."""
    from pathlib import Path

    from mlcheck.report import json

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Mistake(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Mistake(f"{path}: this is not a saved mlcheck report: not UTF-8") from error
    try:
        return json.read(text)
    except Mistake as mistake:
        raise Mistake(f"{path}: {mistake}") from None
