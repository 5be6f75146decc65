"""What several commands take: the options that they share, and those of lint and probe."""

from __future__ import annotations

import argparse

from mlcheck.cli.amounts import memory, processes, time
from mlcheck.cli.output import FORMATS

_FORMATS = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]} (default: text)"


def add_rule_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what lint looks for")
    for option, told in (
        ("--select", "lint only these rules or stages"),
        ("--extend-select", "lint these rules or stages as well"),
        ("--ignore", "skip these rules or stages"),
    ):
        group.add_argument(option, action="append", default=[], metavar="RULE,...", help=told)
    group.add_argument(
        "--target-torch", default="", metavar="VERSION", help="the PyTorch version the code runs on, such as 2.12"
    )
    of_configs = "the Determined version of experiment configs: 0.24 or 0.38"
    group.add_argument("--target-determined", default="", metavar="VERSION", help=of_configs)
    group.add_argument(
        "--baseline", default="", metavar="FILE", help="hide known findings (default: mlcheck-baseline.json)"
    )
    group.add_argument("--no-baseline", action="store_true", help="show known findings too")
    group.add_argument("--write-baseline", action="store_true", help="record the current findings as known")
    shared = "processes for large programs (default: one per idle core, at most 8)"
    group.add_argument("--jobs", type=processes, default=0, metavar="N", help=shared)
    group.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
    group.add_argument("--cache-dir", default="", metavar="FOLDER", help="default: .mlcheck_cache beside the config")


def add_lint_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdin-filename", default="", metavar="FILE", help="treat standard input as this file")
    parser.add_argument(
        "--new-since", default="", metavar="REVISION", help="show only findings that this git revision did not have"
    )
    parser.add_argument(
        "--statistics", action="store_true", help="count the findings of each rule instead of listing them"
    )
    parser.add_argument("--strict", action="store_true", help="notes and unused ignore comments count as findings too")
    parser.add_argument("--exit-zero", action="store_true", help="exit with code 0 even if there are findings")


def add_format_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--format", choices=FORMATS, default="text", metavar="FORMAT", help=_FORMATS)
    parser.add_argument("--output", default="", metavar="FILE", help="write that format to a file and print text")


def add_probe_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what probe runs")
    of_config = "the experiment's YAML: hyperparameters and entry point; or the grid of a runner"
    group.add_argument("--config", metavar="FILE", help=of_config)
    group.add_argument("--hp", action="append", default=[], metavar="NAME=VALUE", help="override a hyperparameter")
    group.add_argument("--prep", metavar="MODULE:FUNCTION", help="call this before importing the entry point")
    group.add_argument("--cpu-shim", action="store_true", help="run CUDA calls on the CPU, and list where they are")
    group.add_argument(
        "--only", action="append", default=[], metavar="RULE,...", help="probe only these rules or stages"
    )
    group.add_argument("--skip", action="append", default=[], metavar="RULE,...", help="skip these rules or stages")
    group.add_argument(
        "--ranks", type=int, default=0, metavar="N", help="processes to simulate several devices (default: 2)"
    )
    group.add_argument("--seed", type=int, metavar="N", help="random seed (default: 0)")
    group.add_argument("--epochs", type=int, default=0, metavar="N", help="planned length of the run")
    group.add_argument("--time-limit", type=time, metavar="TIME", help="limit for each probe (default: 60s)")
    group.add_argument(
        "--budget",
        type=time,
        metavar="TIME",
        help="limit for all probes together, once the program has started (default: 600s)",
    )
    group.add_argument(
        "--memory-limit", type=memory, metavar="SIZE", help="limit for the program (default: the machine's memory)"
    )


def add_report_options(parser: argparse.ArgumentParser, html: str | None, json: str | None) -> None:
    group = parser.add_argument_group("the report")
    add_format_options(group)
    group.add_argument("--html", default=html, metavar="FILE", help="write the report as one HTML page")
    group.add_argument("--json", default=json, metavar="FILE", help="save the report for `mlcheck report`")
    group.add_argument("-v", "--verbose", action="store_true", help="list passed and skipped items in full")
    group.add_argument(
        "--strict", action="store_true", help="count warnings, undecided items and open sign-offs as failures"
    )
