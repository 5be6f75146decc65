"""The command line: which commands there are and what they take."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from mlcheck import __version__
from mlcheck.cli.amounts import processes, time
from mlcheck.cli.output import FORMATS
from mlcheck.cli.words import Overview, Parser, add_command, commands_of, near, options_of

_EXIT_CODES = "Exit code: 0 nothing failed, 1 failures, 2 misuse or a check that broke."
_FORMATS = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]} (default: text)"

_ENTRY = (
    "a trial class or function as MODULE:NAME or FILE.py:NAME, or a script as FILE.py, with its own arguments "
    "after `--` (default: `entry` of the config)"
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
    """All commands. Where one is named, what the rarer others need is not loaded for their options."""
    parser = Parser(
        prog="mlcheck",
        description="The pre-launch checklist for PyTorch.",
        usage="mlcheck COMMAND [OPTIONS] ...",
        epilog="`mlcheck COMMAND --help` tells what a command takes.",
        formatter_class=Overview,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mlcheck {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)

    starting = add_command(subparsers, "init", "", "look at this repository and write its [tool.mlcheck] table")
    _add_checking_commands(subparsers, command)
    loading = add_command(
        subparsers, "load", "[ENTRY]", "may this model go live? must-pass cases, quality, latency and memory under load"
    )
    judging = add_command(subparsers, "sbs", "COMMAND", "blind side-by-side judgements: plan, make, read")
    if command in ("", "init"):
        from mlcheck.cli import init

        init.add_options(starting)
    if command in ("", "load"):
        from mlcheck.cli import load

        load.add_options(loading)
        _add_report_options(loading, html="", json="")
    if command in ("", "sbs"):
        from mlcheck.cli import sbs

        sbs.add_options(judging)
    _add_saved_commands(subparsers, command)
    _add_catalog_commands(subparsers, command)
    return parser


def _later(name: str) -> Callable[[argparse.Namespace], int]:
    """The command of that name: what it needs is loaded when it runs, not when it is only told about."""

    def run(arguments: argparse.Namespace) -> int:
        from mlcheck.cli import commands

        command: Callable[[argparse.Namespace], int] = getattr(commands, name)
        return command(arguments)

    return run


def _add_checking_commands(subparsers: argparse._SubParsersAction[Parser], command: str) -> None:
    lint = add_command(
        subparsers,
        "lint",
        "[PATH ...]",
        "read the code: finds silent training bugs without running anything",
        after="Exit code: 0 nothing found, 1 errors or warnings, 2 misuse or a rule that broke.",
    )
    lint.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders (default: `paths` of the config, or .); - is stdin"
    )
    _add_rule_options(lint)
    _add_lint_options(lint)
    _add_format_options(lint)
    lint.set_defaults(run=_later("lint"), verbose=False)  # it lists findings alone

    probe = add_command(
        subparsers,
        "probe",
        "[ENTRY] [-- ARGUMENT ...]",
        "run the model, the data and the loop a little and judge what was seen",
        after=_EXIT_CODES,
    )
    probe.add_argument("entry", nargs="?", metavar="ENTRY", help=_ENTRY)
    _add_probe_options(probe)
    _add_report_options(probe, html="", json="")
    probe.set_defaults(run=_later("probe"))

    check = add_command(
        subparsers,
        "check",
        "[ENTRY] [-- ARGUMENT ...]",
        "lint, probe and sign-offs, joined into one checklist",
        after=_EXIT_CODES,
    )
    if command in ("", "check"):
        _add_checklist_options(check)


def _add_checklist_options(check: argparse.ArgumentParser) -> None:
    from mlcheck.core.outcome import Profile

    check.add_argument("entry", nargs="?", metavar="ENTRY", help=_ENTRY)
    check.add_argument("--paths", nargs="+", default=[], metavar="PATH", help="code to lint (default: `paths`, or .)")
    profiles = [profile.value for profile in Profile]
    check.add_argument(
        "--profile", choices=profiles, default="", help="what the checklist is for (default: everything)"
    )
    _add_rule_options(check)
    _add_probe_options(check)
    _add_report_options(check, html=None, json=None)
    check.set_defaults(run=_later("check"))


def _add_saved_commands(subparsers: argparse._SubParsersAction[Parser], command: str) -> None:
    """Commands about reports that were saved and questions they left open."""
    report = add_command(subparsers, "report", "REPORT.json", "show a saved report again, without running anything")
    report.add_argument("saved", metavar="REPORT.json", help="what `--json` wrote")
    _add_report_options(report, html="", json="")
    report.set_defaults(run=_later("report"))

    comparing = add_command(
        subparsers,
        "compare",
        "BEFORE.json AFTER.json",
        "what is new, mended or still wrong; exit code 1 if anything is new",
    )
    comparing.add_argument("before", metavar="BEFORE.json", help="the earlier report")
    comparing.add_argument("after", metavar="AFTER.json", help="the later one")
    comparing.set_defaults(run=_later("compare"))

    signing = add_command(subparsers, "sign", "RULE", "answer what only a person can answer, with your name")
    waiving = add_command(subparsers, "waive", "RULE", "accept the failure of a rule, with your name and reason")
    if command in ("", "sign", "waive"):
        from mlcheck.cli import sign

        sign.add_sign_options(signing)
        sign.add_waive_options(waiving)


def _add_catalog_commands(subparsers: argparse._SubParsersAction[Parser], command: str) -> None:
    explain = add_command(subparsers, "explain", "RULE", "print the page of a rule")
    explain.add_argument("rule", metavar="RULE", help="its name, as findings show it and `mlcheck rules` lists it")
    explain.add_argument("--all", action="store_true", help="with all of its examples")
    explain.set_defaults(run=_later("explain"))

    rules = add_command(subparsers, "rules", "", "list the rules with their severity and who answers them")
    if command in ("", "rules"):
        _add_list_options(rules)

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


def _add_rule_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what lint looks for")
    for option, told in (
        ("--select", "lint only these rules or stages"),
        ("--extend-select", "lint these too"),
        ("--ignore", "leave these lint rules out"),
    ):
        group.add_argument(option, action="append", default=[], metavar="RULE,...", help=told)
    group.add_argument("--target-torch", default="", metavar="VERSION", help="the torch to judge for, such as 2.12")
    of_configs = "the dialect of experiment configs: 0.24 or 0.38"
    group.add_argument("--target-determined", default="", metavar="VERSION", help=of_configs)
    group.add_argument(
        "--baseline", default="", metavar="FILE", help="hide what is known (default: mlcheck-baseline.json)"
    )
    group.add_argument("--no-baseline", action="store_true", help="show what is known too")
    group.add_argument("--write-baseline", action="store_true", help="from now on, what is found now is known")
    shared = "processes for large programs (default: one an idle core, at most 8)"
    group.add_argument("--jobs", type=processes, default=0, metavar="N", help=shared)
    group.add_argument("--no-cache", action="store_true", help="read everything anew, and keep nothing")
    group.add_argument("--cache-dir", default="", metavar="FOLDER", help="default: .mlcheck_cache beside the config")


def _add_lint_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdin-filename", default="", metavar="FILE", help="standard input stands for this file")
    parser.add_argument("--new-since", default="", metavar="REVISION", help="only what this revision did not have")
    parser.add_argument("--statistics", action="store_true", help="count the findings of each rule instead")
    parser.add_argument("--strict", action="store_true", help="notes and comments that hide nothing count too")
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 though there are findings")


def _add_format_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--format", choices=FORMATS, default="text", metavar="FORMAT", help=_FORMATS)
    parser.add_argument("--output", default="", metavar="FILE", help="write that format to a file; print text")


def _add_probe_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what probe runs")
    group.add_argument("--config", metavar="FILE", help="the experiment's YAML: hyperparameters, and the entry point")
    group.add_argument("--hp", action="append", default=[], metavar="NAME=VALUE", help="override a hyperparameter")
    group.add_argument("--prep", metavar="MODULE:FUNCTION", help="called before the entry point is imported")
    group.add_argument(
        "--cpu-shim", action="store_true", help="run what the program asks of CUDA on the CPU, and list where it asks"
    )
    group.add_argument(
        "--only", action="append", default=[], metavar="RULE,...", help="probe only these rules or stages"
    )
    group.add_argument("--skip", action="append", default=[], metavar="RULE,...", help="leave these probes out")
    group.add_argument("--ranks", type=int, default=0, metavar="N", help="processes for several devices (default: 2)")
    group.add_argument("--seed", type=int, metavar="N", help="for everything random (default: 0)")
    group.add_argument("--epochs", type=int, default=0, metavar="N", help="how long the run is planned to be")
    group.add_argument("--time-limit", type=time, metavar="TIME", help="for one probe (default: 60s)")
    group.add_argument("--budget", type=time, metavar="TIME", help="for all probes together (default: 600s)")


def _add_report_options(parser: argparse.ArgumentParser, html: str | None, json: str | None) -> None:
    group = parser.add_argument_group("the report")
    _add_format_options(group)
    group.add_argument("--html", default=html, metavar="FILE", help="write the report as one HTML page")
    group.add_argument("--json", default=json, metavar="FILE", help="save the report; `mlcheck report` reads it")
    group.add_argument("-v", "--verbose", action="store_true", help="tell in full what passed and what was skipped")
    group.add_argument("--strict", action="store_true", help="warnings, open sign-offs and open questions count too")
