"""`mlcheck sbs`: plan, make and read blind side-by-side judgements."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlcheck.cli import output
from mlcheck.cli.load import require_extra
from mlcheck.core.mistake import Mistake
from mlcheck.core.plural import plural


def plan(arguments: argparse.Namespace) -> int:
    """How many judgements are needed, before anybody starts to judge."""
    require_extra()
    from mlcheck.load.binomial import judgements_needed

    rate = arguments.win_rate
    if not 0.5 < rate <= 1:
        raise Mistake(f"--win-rate {rate:g}: must be above 0.5 and at most 1, such as 0.6 for six wins in ten")
    if not 0 <= arguments.ties < 1:
        raise Mistake(f"--ties {arguments.ties:g}: must be a share from 0 up to 1, such as 0.3")
    try:
        needed = judgements_needed(rate, arguments.alpha, arguments.power)
    except ValueError as error:
        raise Mistake(
            f"--win-rate {rate:g} needs {error}: such a small preference cannot be shown with people"
        ) from None
    items = round(needed / (1 - arguments.ties))
    print(
        f"to show a win rate of {rate:.0%} with a chance of {arguments.power:.0%} (two-sided sign test, alpha "
        f"{arguments.alpha:g}): {needed:,} items that are no ties"
        + (f", so {items:,} items with {arguments.ties:.0%} ties" if arguments.ties else "")
    )
    return output.CLEAN


def make(arguments: argparse.Namespace) -> int:
    require_extra()
    from mlcheck.load.sheet import make_sheet, read_pairs

    pairs = read_pairs(Path(arguments.pairs))
    page, key = make_sheet(pairs, arguments.seed)
    for path in (arguments.sheet, arguments.key):
        if Path(path).exists() and not arguments.force:
            raise Mistake(f"{path} is there already: choose another name, or --force if no judgement was made with it")
    output.write(arguments.sheet, page)
    output.write(arguments.key, key)
    equal = sum(pair.new == pair.live for pair in pairs)
    left_out = f" ({equal} with equal answers are left out)" if equal else ""
    print(
        f"wrote {arguments.sheet} for the raters, {plural(len(pairs) - equal, 'item')}{left_out}, and "
        f"{arguments.key} for you"
    )
    return output.CLEAN


def read(arguments: argparse.Namespace) -> int:
    """The checklist's line about it, and the numbers behind."""
    require_extra()
    from mlcheck.load.checks.side_by_side_unjudged import check
    from mlcheck.load.limits import Limits, read_limits
    from mlcheck.load.sbs import read_judgements

    limits = read_limits(Path(arguments.slo)) if arguments.slo else Limits()
    found = read_judgements(Path(arguments.key), [Path(path) for path in arguments.answers])
    verdict = check(found, limits)
    print(f"{verdict.outcome.value.upper()}  {verdict.summary}")
    for line in (verdict.reason, *(finding.message for finding in verdict.findings)):
        if line:
            print(f"  {line}")
    for name, number in verdict.numbers.items():
        print(f"  {name}: {number:.3g}")
    return output.FINDINGS if verdict.outcome.value == "fail" else output.CLEAN


def add_options(parser: argparse.ArgumentParser) -> None:
    """The three sub-commands of `mlcheck sbs`."""
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", dest="part", required=True, prog="mlcheck sbs")
    planning = parts.add_parser("plan", help="how many judgements are needed", allow_abbrev=False)
    planning.add_argument(
        "--win-rate", type=float, default=0.6, metavar="SHARE", help="win rate to detect (default: 0.6)"
    )
    planning.add_argument(
        "--ties", type=float, default=0.0, metavar="SHARE", help="expected share of ties (default: 0)"
    )
    planning.add_argument("--alpha", type=float, default=0.05, help="two-sided significance level (default: 0.05)")
    planning.add_argument("--power", type=float, default=0.8, help="statistical power (default: 0.8)")
    planning.set_defaults(run=plan)

    making = parts.add_parser("make", help="write a blind, side-randomised sheet for raters", allow_abbrev=False)
    making.add_argument("pairs", metavar="PAIRS.jsonl", help="lines with query, new, live and optionally id")
    making.add_argument("--sheet", default="sheet.html", metavar="FILE", help="for the raters (default: sheet.html)")
    making.add_argument("--key", default="key.json", metavar="FILE", help="for you only (default: key.json)")
    making.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    making.add_argument("--force", action="store_true", help="overwrite an existing sheet and key")
    making.set_defaults(run=make)

    reading = parts.add_parser("read", help="score the answers of the raters", allow_abbrev=False)
    reading.add_argument("key", metavar="KEY.json", help="what `make` wrote")
    reading.add_argument("answers", nargs="+", metavar="ANSWERS.csv", help="what the raters downloaded")
    reading.add_argument("--slo", default="", metavar="FILE", help="limits, for [sbs] alpha")
    reading.set_defaults(run=read)
