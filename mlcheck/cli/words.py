"""How the command line complains and helps: one sentence with the nearest right word, columns that line up."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import NoReturn

from mlcheck.cli.streams import columns, complain
from mlcheck.core.patterns import pattern


class Parser(argparse.ArgumentParser):
    """Complains in one sentence, with the nearest right word; takes no abbreviations, which a new option may break."""

    def error(self, message: str) -> NoReturn:
        told = _suggesting(message)
        complain(told if told.endswith("?") else f"{told}; see `{self.prog} --help`")
        self.exit(2)


class Help(argparse.HelpFormatter):
    """Room for the longest option beside what it does."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=columns(80) - 2)


class Overview(argparse.HelpFormatter):
    """The commands stand close to what they do."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=16, width=columns(80) - 2)
        self._action_max_length = 14

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        return text.partition("\n")[2] if isinstance(action, argparse._SubParsersAction) else text


def add_command(
    subparsers: argparse._SubParsersAction[Parser], name: str, arguments: str, told: str, after: str = ""
) -> Parser:
    """A command with its one line of help, which also begins its own page."""
    return subparsers.add_parser(
        name,
        prog=f"mlcheck {name}",
        help=told,
        description=f"{told[0].upper()}{told[1:]}.",
        usage=f"mlcheck {name} [OPTIONS] {arguments}".rstrip(),
        epilog=after,
        formatter_class=Help,
        allow_abbrev=False,
    )


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands by name."""
    (choices,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(choices)


def options_of(command: argparse.ArgumentParser) -> list[str]:
    """The long options of a command."""
    return [name for action in command._actions for name in action.option_strings if name.startswith("--")]


def near(word: str, known: Iterable[str]) -> str:
    """`: did you mean --x?`, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), n=1)
    return f": did you mean `{found[0]}`?" if found else ""


_CHOICE = pattern(r"argument (?P<what>[^:]+): invalid choice: '(?P<word>[^']*)' \(choose from (?P<known>.*)\)")


def _suggesting(message: str) -> str:
    """argparse's own words made one sentence, with the nearest of the choices it lists."""
    match = _CHOICE.match(message)
    if not match:
        return message.replace("the following arguments are required: COMMAND", "name a command")
    known = re.findall(r"[\w-]+", match["known"])
    what = "command" if match["what"] == "COMMAND" else f"choice for {match['what']}"
    return f"there is no {what} `{match['word']}`{near(match['word'], known) or ': it is one of ' + ', '.join(known)}"
