"""`mlcheck init`: finds what can be examined and writes the `[tool.mlcheck]` table after showing it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from mlcheck.cli.output import CLEAN, say, width, write
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from mlcheck.survey import Candidate, Survey

_PYPROJECT = "pyproject.toml"
_SHOWN = 8
_NONE = (
    "no entry point was found: `mlcheck probe` needs a PyTorchTrial, a LightningModule, a script, a "
    "notebook, or a function that returns model, optimizer, loss and train_loader"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--entry", default="", metavar="ENTRY", help="use this entry point instead of the likeliest one"
    )
    parser.add_argument("--yes", action="store_true", help="write without asking")
    parser.set_defaults(run=init)


def init(arguments: argparse.Namespace) -> int:
    """Survey the working directory, show the table, write it when told to."""
    from mlcheck.survey import survey

    path = Path(_PYPROJECT)
    text = _existing(path)
    found = survey(Path())
    chosen = _chosen(found, arguments.entry)
    table = _table(found, chosen)
    say(_told(found, chosen, table))
    if not arguments.yes and not _agreed():
        say(f"nothing was written; `mlcheck init --yes` appends this to {_PYPROJECT}\n")
        return CLEAN
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    write(str(path), f"{text}{gap}{table}")
    say(f"written to {_PYPROJECT}; next: mlcheck {'check' if chosen else 'lint'}\n")
    return CLEAN


def _existing(path: Path) -> str:
    """The text of a pyproject.toml that has no table yet; empty without the file."""
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Mistake(f"{path}: cannot be read: {error}") from None
    if "mlcheck" in tables.get("tool", {}):
        raise Mistake(f"{path} has a table [tool.mlcheck] already: edit it, or take it out first")
    return text


def _chosen(found: Survey, entry: str) -> Candidate | None:
    from mlcheck.survey import NO_DATA, Candidate

    if entry:
        return next((each for each in found.candidates if each.entry == entry), Candidate(entry, "given"))
    return next((each for each in found.candidates if each.kind != NO_DATA), None)


def _table(found: Survey, chosen: Candidate | None) -> str:
    """JSON's strings and lists are TOML's."""
    lines = ["[tool.mlcheck]", f"paths = {json.dumps(list(found.paths), ensure_ascii=False)}"]
    if chosen:
        lines.append(f"entry = {json.dumps(chosen.entry, ensure_ascii=False)}")
        if chosen.config:
            lines.append(f"config = {json.dumps(chosen.config, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def _told(found: Survey, chosen: Candidate | None, table: str) -> str:
    from mlcheck.core.plural import plural

    read = plural(found.files, "Python file")
    lines = [f"{read}, {plural(len(found.candidates), 'entry point')}{', * is proposed' if chosen else ''}"]
    for candidate in found.candidates[:_SHOWN]:
        mark = "*" if candidate == chosen else " "
        config = f" with {candidate.config}" if candidate.config else ""
        lines.append(f"{mark} {candidate.entry}  ({candidate.kind}{config})")
    if len(found.candidates) > _SHOWN:
        lines.append(f"  and {len(found.candidates) - _SHOWN} more")
    if not chosen:
        lines += wrap(_NONE, width(), break_long_words=False)
    return "\n".join([*lines, "", table])


def _agreed() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"Append this to {_PYPROJECT}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
