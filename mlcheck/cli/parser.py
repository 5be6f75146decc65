"""The command line: which commands there are and what they take."""

from __future__ import annotations

import argparse

from mlcheck import __version__
from mlcheck.cli import commands


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mlcheck", description="The pre-launch checklist for PyTorch.")
    parser.add_argument("--version", action="version", version=f"mlcheck {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    lint = subparsers.add_parser("lint", help="read the code: finds silent training bugs without running anything")
    lint.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders (default: `paths` of the config, or .)"
    )
    _add_rule_options(lint)
    lint.add_argument("--format", choices=("text", "concise", "json"), default="text")
    lint.set_defaults(run=commands.lint)

    probe = subparsers.add_parser("probe", help="run the model, the data and the loop a little and judge what was seen")
    probe.add_argument("entry", nargs="?", metavar="MODULE:NAME", help="a trial class or a function (default: `entry`)")
    _add_probe_options(probe)
    _add_report_options(probe, html="", json="")
    probe.set_defaults(run=commands.probe)

    check = subparsers.add_parser("check", help="lint, probe and sign-offs, joined into one checklist")
    check.add_argument("entry", nargs="?", metavar="MODULE:NAME", help="a trial class or a function (default: `entry`)")
    check.add_argument("--paths", nargs="+", default=[], metavar="PATH", help="code to lint (default: `paths`, or .)")
    _add_rule_options(check)
    _add_probe_options(check)
    _add_report_options(check, html=None, json=None)
    check.set_defaults(run=commands.check)

    report = subparsers.add_parser("report", help="show a saved report again, without running anything")
    report.add_argument("saved", metavar="REPORT.json")
    _add_report_options(report, html="", json="")
    report.set_defaults(run=commands.report)

    explain = subparsers.add_parser("explain", help="print the page of a rule")
    explain.add_argument("rule", metavar="RULE")
    explain.set_defaults(run=commands.explain)

    rules = subparsers.add_parser("rules", help="list every rule with its stage and who answers it")
    rules.set_defaults(run=commands.rules)
    return parser


def _add_rule_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--select", action="append", default=[], metavar="RULE,...", help="lint only these rules or stages"
    )
    parser.add_argument("--ignore", action="append", default=[], metavar="RULE,...", help="leave these lint rules out")


def _add_probe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the experiment's YAML, for its hyperparameters")
    parser.add_argument("--hp", action="append", default=[], metavar="NAME=VALUE", help="override a hyperparameter")
    parser.add_argument("--prep", metavar="MODULE:FUNCTION", help="called before the entry point is imported")
    parser.add_argument("--only", action="append", default=[], metavar="RULE,...", help="probe only these rules")
    parser.add_argument("--skip", action="append", default=[], metavar="RULE,...", help="leave these probes out")
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="for one probe")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for all probes together")


def _add_report_options(parser: argparse.ArgumentParser, html: str | None, json: str | None) -> None:
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    parser.add_argument("--html", default=html, metavar="FILE", help="write the report as one HTML page")
    parser.add_argument("--json", default=json, metavar="FILE", help="save the report; `mlcheck report` reads it")
    parser.add_argument("--strict", action="store_true", help="warnings, open sign-offs and open questions count too")
