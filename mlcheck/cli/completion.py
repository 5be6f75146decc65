"""Completion of the commands for bash, zsh and fish, made from the parser, so that no option is forgotten."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mlcheck.cli.settings import known_rules
from mlcheck.cli.words import commands_of


@dataclass(frozen=True, slots=True)
class _Word:
    """An option or argument: its names (none: an argument), what it is, and what may follow or stand there."""

    names: tuple[str, ...]
    told: str
    takes: bool
    choices: tuple[str, ...]
    files: bool


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The text to be sourced: `eval "$(mlcheck completion bash)"`."""
    commands = {name: [_word(action) for action in made._actions] for name, made in commands_of(parser).items()}
    (group,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    told = {choice.dest: choice.help or "" for choice in group._choices_actions}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands, told)


def _word(action: argparse.Action) -> _Word:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    choices = tuple(str(choice) for choice in action.choices or ())
    if metavar in ("RULE", "RULE,..."):
        choices = tuple(sorted(known_rules().paths))
    files = bool(re.match(r"FILE|PATH|FOLDER|ENTRY|REPORT", metavar))
    return _Word(tuple(action.option_strings), action.help or "", action.nargs != 0, choices, files)


Commands = dict[str, list[_Word]]


def _bash(commands: Commands, told: dict[str, str]) -> str:
    cases = "\n".join(_bash_command(name, words) for name, words in commands.items())
    return f"""\
# bash completion of mlcheck: eval "$(mlcheck completion bash)"
_mlcheck() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
}}
complete -o default -F _mlcheck mlcheck
"""


def _bash_command(name: str, words: list[_Word]) -> str:
    after = [
        f"            {'|'.join(word.names)}) "
        + (f'COMPREPLY=($(compgen -W "{" ".join(word.choices)}" -- "$word"))' if word.choices else ":")
        + "; return ;;"
        for word in words
        if word.names and word.takes
    ]
    options = " ".join(name for word in words for name in word.names)
    stands = " ".join(choice for word in words if not word.names for choice in word.choices)
    return "\n".join(
        [
            f"    {name})",
            *(["        case $before in", *after, "        esac"] if after else []),
            "        if [[ $word == -* ]]; then",
            f'            COMPREPLY=($(compgen -W "{options}" -- "$word"))',
            *(["        else", f'            COMPREPLY=($(compgen -W "{stands}" -- "$word"))'] if stands else []),
            "        fi ;;",
        ]
    )


def _zsh(commands: Commands, told: dict[str, str]) -> str:
    listed = "\n".join(f"        {_quoted(f'{name}:{_plain(told[name])}')}" for name in commands)
    cases = "\n".join(_zsh_command(name, words) for name, words in commands.items())
    return f"""\
#compdef mlcheck
# zsh completion of mlcheck: eval "$(mlcheck completion zsh)", or a file _mlcheck on the fpath
_mlcheck() {{
    local -a commands
    commands=(
{listed}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
{cases}
    esac
}}
if [ "$funcstack[1]" = "_mlcheck" ]; then _mlcheck "$@"; else compdef _mlcheck mlcheck; fi
"""


def _zsh_command(name: str, words: list[_Word]) -> str:
    specs = " \\\n            ".join(_quoted(spec) for word in words for spec in _zsh_specs(word))
    return f"        {name})\n        _arguments -S \\\n            {specs} ;;"


def _zsh_specs(word: _Word) -> Iterator[str]:
    action = f"({' '.join(word.choices)})" if word.choices else "_files" if word.files else " "
    if not word.names:
        yield f"*:{_plain(word.told) or 'argument'}:{action}"
    for name in word.names:
        yield f"*{name}[{_plain(word.told)}]" + (f":value:{action}" if word.takes else "")


def _fish(commands: Commands, told: dict[str, str]) -> str:
    lines = ["# fish completion of mlcheck: mlcheck completion fish | source", "complete -c mlcheck -f"]
    for name, words in commands.items():
        lines.append(f"complete -c mlcheck -n __fish_use_subcommand -a {name} -d {_quoted(_plain(told[name]))}")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for word in words:
            following = f" -x -a {_quoted(' '.join(word.choices))}" if word.choices else " -r -F" if word.takes else ""
            if word.names:
                flags = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in word.names)
                lines.append(f"complete -c mlcheck {seen}{flags}{following} -d {_quoted(_plain(word.told))}")
            else:
                given = f" -f -a {_quoted(' '.join(word.choices))}" if word.choices else " -F"
                lines.append(f"complete -c mlcheck {seen}{given}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Without what means something in a description of zsh."""
    return re.sub(r"[\[\]:`\\]", "", text.replace(": ", " - ")).replace("%%", "%")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
