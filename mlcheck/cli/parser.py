"""The command line: which commands there are and what they take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlcheck import __version__
from mlcheck.cli.options import (
    add_format_options,
    add_lint_options,
    add_probe_options,
    add_report_options,
    add_rule_options,
)
from mlcheck.cli.words import Overview, Parser, add_command, commands_of, near, options_of

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[Parser]

_EXIT_CODES = "Exit code: 0 nothing failed, 1 failures, 2 misuse or a check that crashed."

_ENTRY = (
    "a trial class or function as MODULE:NAME or FILE.py:NAME, or a script as FILE.py or, started with "
    "`python -m`, PACKAGE.MODULE, with its own arguments after `--` (default: `entry` of the config)"
)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command. Prints a sentence and exits with 2 where they make no sense."""
    first = argv[0] if argv else ""
    parser = build_parser("" if first.startswith("-") and list(argv) not in (["--help"], ["-h"]) else first)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        command = commands_of(parser)[arguments.command]
        word = unknown[0].partition("=")[0]
        if word in options_of(command):
            command.error(f"`{word}` stands behind the command: `mlcheck {arguments.command} {word}`")
        if word.startswith("-"):
            known = near(word, options_of(command))
            owns = "; the program's own go behind `--`" if arguments.command in ("probe", "check") else ""
            command.error(f"there is no option `{word}`{known}{owns}")
        command.error(f"`{word}` is one argument too many")
    return arguments


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """All commands, or the one that is named; where the first word is none, the rarer ones without their options."""
    parser = Parser(
        prog="mlcheck",
        description="The pre-launch checklist for PyTorch.",
        usage="mlcheck COMMAND [OPTIONS] ...",
        epilog="Run `mlcheck COMMAND --help` for the options of a command.",
        formatter_class=Overview,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mlcheck {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, add in _COMMANDS.items():
        if name == command or command not in _COMMANDS:
            add(subparsers, command in ("", name))
    return parser


def _later(name: str) -> Callable[[argparse.Namespace], int]:
    """The command of that name: what it needs is loaded when it runs, not when it is only told about."""

    def run(arguments: argparse.Namespace) -> int:
        from mlcheck.cli import commands

        command: Callable[[argparse.Namespace], int] = getattr(commands, name)
        return command(arguments)

    return run


def _add_init(subparsers: _Commands, whole: bool) -> None:
    starting = add_command(subparsers, "init", "", "inspect this repository and write its [tool.mlcheck] table")
    if whole:
        from mlcheck.cli import init

        init.add_options(starting)


def _add_lint(subparsers: _Commands, whole: bool) -> None:
    lint = add_command(
        subparsers,
        "lint",
        "[PATH ...]",
        "find silent training bugs in the code without running it",
        after="Exit code: 0 nothing found, 1 errors or warnings, 2 misuse or a rule that crashed.",
    )
    lint.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders (default: `paths` of the config, or .); - is stdin"
    )
    add_rule_options(lint)
    add_lint_options(lint)
    add_format_options(lint)
    lint.set_defaults(run=_later("lint"), verbose=False)  # it lists findings alone


def _add_probe(subparsers: _Commands, whole: bool) -> None:
    probe = add_command(
        subparsers,
        "probe",
        "[ENTRY] [-- ARGUMENT ...]",
        "run a few training steps and test the model, the data and the loop",
        after=_EXIT_CODES,
    )
    probe.add_argument("entry", nargs="?", metavar="ENTRY", help=_ENTRY)
    add_probe_options(probe)
    add_report_options(probe, html="", json="")
    probe.set_defaults(run=_later("probe"))


def _add_check(subparsers: _Commands, whole: bool) -> None:
    check = add_command(
        subparsers,
        "check",
        "[ENTRY] [-- ARGUMENT ...]",
        "lint, probe and sign-offs, combined into one checklist",
        after=_EXIT_CODES,
    )
    if whole:
        _add_checklist_options(check)


def _add_load(subparsers: _Commands, whole: bool) -> None:
    loading = add_command(
        subparsers,
        "load",
        "[ENTRY]",
        "is this model ready to go live? must-pass cases, quality, latency and memory under load",
    )
    if whole:
        from mlcheck.cli import load

        load.add_options(loading)
        add_report_options(loading, html="", json="")


def _add_sbs(subparsers: _Commands, whole: bool) -> None:
    judging = add_command(subparsers, "sbs", "COMMAND", "blind side-by-side judgements: plan, make, read")
    if whole:
        from mlcheck.cli import sbs

        sbs.add_options(judging)


def _add_checklist_options(check: argparse.ArgumentParser) -> None:
    from mlcheck.core.outcome import Profile

    check.add_argument("entry", nargs="?", metavar="ENTRY", help=_ENTRY)
    check.add_argument("--paths", nargs="+", default=[], metavar="PATH", help="code to lint (default: `paths`, or .)")
    profiles = [profile.value for profile in Profile]
    check.add_argument(
        "--profile", choices=profiles, default="", help="the occasion to check for (default: everything)"
    )
    add_rule_options(check)
    add_probe_options(check)
    add_report_options(check, html=None, json=None)
    check.set_defaults(run=_later("check"))


def _add_report(subparsers: _Commands, whole: bool) -> None:
    report = add_command(subparsers, "report", "REPORT.json", "show a saved report again, without running anything")
    report.add_argument("saved", metavar="REPORT.json", help="what `--json` wrote")
    add_report_options(report, html="", json="")
    report.set_defaults(run=_later("report"))


def _add_compare(subparsers: _Commands, whole: bool) -> None:
    comparing = add_command(
        subparsers,
        "compare",
        "BEFORE.json AFTER.json",
        "what is new, fixed or still wrong; exit code 1 if anything is new",
    )
    comparing.add_argument("before", metavar="BEFORE.json", help="the earlier report")
    comparing.add_argument("after", metavar="AFTER.json", help="the later one")
    comparing.set_defaults(run=_later("compare"))


def _add_sign(subparsers: _Commands, whole: bool) -> None:
    signing = add_command(subparsers, "sign", "RULE", "answer what only a person can answer, with your name")
    if whole:
        from mlcheck.cli import sign

        sign.add_sign_options(signing)


def _add_waive(subparsers: _Commands, whole: bool) -> None:
    waiving = add_command(subparsers, "waive", "RULE", "accept the failure of a rule, with your name and reason")
    if whole:
        from mlcheck.cli import sign

        sign.add_waive_options(waiving)


def _add_explain(subparsers: _Commands, whole: bool) -> None:
    explain = add_command(subparsers, "explain", "RULE", "print the page of a rule")
    explain.add_argument("rule", metavar="RULE", help="name of the rule, as shown in findings and by `mlcheck rules`")
    explain.add_argument("--all", action="store_true", help="print all of its examples")
    explain.set_defaults(run=_later("explain"))


def _add_rules(subparsers: _Commands, whole: bool) -> None:
    rules = add_command(subparsers, "rules", "", "list the rules with their severity and who answers them")
    if whole:
        _add_list_options(rules)


def _add_completion(subparsers: _Commands, whole: bool) -> None:
    completion = add_command(
        subparsers, "completion", "{bash,zsh,fish}", "print the completion of these commands for a shell"
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help='bash: eval "$(mlcheck completion bash)"')
    completion.set_defaults(run=_later("completion"))


def _add_list_options(rules: argparse.ArgumentParser) -> None:
    from mlcheck.core.outcome import By, Severity, Stage

    for option, kind, told in (
        ("--stage", Stage, "only those of this stage of a project"),
        ("--severity", Severity, "only those that matter this much"),
        ("--by", By, "only those that can be answered so"),
    ):
        words = [entry.value for entry in kind]
        rules.add_argument(option, action="append", default=[], choices=words, help=f"{told} (may be repeated)")
    rules.add_argument("--format", choices=("text", "json", "names"), default="text", help="default: text")
    rules.set_defaults(run=_later("rules"))


_COMMANDS = {
    "init": _add_init,
    "lint": _add_lint,
    "probe": _add_probe,
    "check": _add_check,
    "load": _add_load,
    "sbs": _add_sbs,
    "report": _add_report,
    "compare": _add_compare,
    "sign": _add_sign,
    "waive": _add_waive,
    "explain": _add_explain,
    "rules": _add_rules,
    "completion": _add_completion,
}
