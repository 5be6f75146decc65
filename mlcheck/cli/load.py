"""`mlcheck load` and `mlcheck sbs`: from the command line to a run, and back to a report or a file."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlcheck.cli import output
from mlcheck.cli.delivery import deliver
from mlcheck.cli.progress import progress
from mlcheck.cli.settings import names
from mlcheck.config import load_config
from mlcheck.core.extras import require
from mlcheck.core.mistake import Mistake

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlcheck.core.report import Report
    from mlcheck.load.limits import Limits
    from mlcheck.load.locust_engine import Fleet

_INTERRUPTED = 130
_QUICK_S = 3.0
_QUICK_WORKERS = 4


def load(arguments: argparse.Namespace) -> int:
    require_extra()
    if arguments.init:
        return _init(Path())
    if arguments.self_test:
        return _self_test()
    if arguments.entry and arguments.url:
        raise Mistake("give an entry point or --url, not both")
    if not arguments.entry and not arguments.url:
        raise Mistake("name what answers queries, as in `mlcheck load module:predict`; `mlcheck load --init` shows how")
    from mlcheck.load.options import INTERRUPTED, LoadOptions
    from mlcheck.load.run import run_load

    if arguments.locust_join:
        from mlcheck.load.locust_engine import join_master, require_locust

        require_locust()
        return join_master(_address(arguments.url), arguments.locust_join)
    if arguments.live and not arguments.labelled:
        raise Mistake("--live needs --labelled: both versions answer the same labelled queries")
    if bool(arguments.sbs_key) != bool(arguments.sbs_answers):
        raise Mistake("--sbs-key and --sbs-answers belong together: give both or neither")
    limits = _limits(arguments)
    options = LoadOptions(
        entry=arguments.entry or _address(arguments.url),
        queries=arguments.queries,
        complex=arguments.complex,
        golden=arguments.golden,
        labelled=arguments.labelled,
        live=arguments.live,
        sbs_key=arguments.sbs_key,
        sbs_answers=tuple(arguments.sbs_answers),
        ratings=arguments.ratings,
        only=names(arguments.only),
        limits=limits,
        seed=arguments.seed,
        fleet=_fleet(arguments, limits),
    )
    with progress() as show:
        report = run_load(options, show, _keeper(arguments.json))
    report = replace(report, arguments=_repeating(arguments))
    code = deliver(report, arguments, arguments.html, arguments.json, load_config())
    return _INTERRUPTED if INTERRUPTED in report.notices else code


def _fleet(arguments: argparse.Namespace, limits: Limits) -> Fleet | None:
    """Locust, if requested: it needs an address, queries and a rate."""
    if not arguments.locust:
        return None
    from mlcheck.load.locust_engine import Fleet, require_locust

    require_locust()
    if not (arguments.url and arguments.queries and limits.load.rate_qps):
        raise Mistake("--locust needs --url, --queries and a rate (--rate, or rate_qps in the SLO file)")
    if arguments.locust_expect and ":" not in arguments.locust_bind:
        raise Mistake(f"--locust-bind {arguments.locust_bind}: write it as HOST:PORT, such as *:5557")
    return Fleet(
        processes=max(1, arguments.locust_processes),
        expected=max(0, arguments.locust_expect),
        bind=arguments.locust_bind,
        longest_stall_s=arguments.longest_stall,
    )


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise Mistake(f"--url {url}: write it as http://host:port/path")
    return url


def _repeating(arguments: argparse.Namespace) -> tuple[str, ...]:
    """What must follow `mlcheck load` to ask again, as it was given."""
    given = [arguments.entry] if arguments.entry else ["--url", arguments.url]
    for name in ("queries", "complex", "golden", "labelled", "live", "sbs_key", "ratings", "slo", "workers"):
        if getattr(arguments, name):
            given += [f"--{name.replace('_', '-')}", getattr(arguments, name)]
    if arguments.sbs_answers:
        given += ["--sbs-answers", *arguments.sbs_answers]
    for name in ("rate", "duration", "threads", "query_timeout"):
        if getattr(arguments, name) is not None:
            given += [f"--{name.replace('_', '-')}", f"{getattr(arguments, name):g}"]
    given += [f"--{name}" for name in ("quick", "locust") if getattr(arguments, name)]
    return tuple(given + (["--seed", str(arguments.seed)] if arguments.seed else []))


def _keeper(path: str) -> Callable[[Report], None] | None:
    """Saves the report so far, where a file for it is named."""
    return (lambda report: output.write(path, output.rendered(report, "json", strict=False))) if path else None


def require_extra() -> None:
    if os.name == "nt":
        raise Mistake("`mlcheck load` runs on Linux and macOS: use it in WSL")
    require("load", ("numpy", "psutil"))


def _limits(arguments: argparse.Namespace) -> Limits:
    """What the SLO file says, with what the command line says over it."""
    from mlcheck.load.limits import Limits, read_limits

    limits = read_limits(Path(arguments.slo)) if arguments.slo else Limits()
    plan = limits.load
    if arguments.workers:
        plan = replace(plan, workers=_workers(arguments.workers))
    if arguments.quick:
        few = tuple(number for number in plan.workers if number <= _QUICK_WORKERS) or plan.workers[:1]
        plan = replace(plan, workers=plan.workers if arguments.workers else few, duration_s=_QUICK_S)
    for name in ("rate", "duration", "threads", "query_timeout", "longest_stall"):
        value = getattr(arguments, name)
        if value is not None and value <= 0:
            raise Mistake(f"--{name.replace('_', '-')} must be above 0, not {value:g}")
    plan = replace(
        plan,
        rate_qps=plan.rate_qps if arguments.rate is None else arguments.rate,
        duration_s=plan.duration_s if arguments.duration is None else arguments.duration,
        threads=plan.threads if arguments.threads is None else arguments.threads,
        query_timeout_s=plan.query_timeout_s if arguments.query_timeout is None else arguments.query_timeout,
    )
    return replace(limits, load=plan)


def _workers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise Mistake(f"`--workers {text}`: write numbers of processes, like 1,2,4")
    return found


def _init(folder: Path) -> int:
    """Commented templates of all files; one that is there already stays as it is."""
    from importlib.resources import files

    templates = files("mlcheck.load").joinpath("templates").iterdir()
    for template in sorted(templates, key=lambda entry: entry.name):
        if template.name.endswith(".html"):
            continue
        target = folder / template.name
        if target.exists():
            print(f"{target} is there already: left as it is")
            continue
        output.write(str(target), template.read_text(encoding="utf-8"))
        print(f"wrote {target}")
    print(
        "\nfill them in, then: mlcheck load module:predict --queries random.jsonl --complex complex.jsonl "
        "--golden golden.jsonl --labelled labelled.jsonl --slo slo.toml"
    )
    return output.CLEAN


def _self_test() -> int:
    """What the harness adds to a measurement on this machine, and whether it lets a stall show."""
    from mlcheck.load.self_test import self_test

    with progress() as show:
        traits = self_test(lambda told: show(told, 0, 3) if show else None)
    for trait in traits:
        print(f"{'PASS' if trait.kept else 'FAIL'}  {trait.told}")
    return output.CLEAN if all(trait.kept for trait in traits) else output.FINDINGS


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `mlcheck load` takes."""
    parser.add_argument(
        "entry",
        nargs="?",
        default="",
        metavar="ENTRY",
        help="a predict function, a class or an nn.Module as MODULE:NAME; a model file; the folder of a Determined "
        "checkpoint",
    )
    parser.add_argument(
        "--url",
        default="",
        metavar="URL",
        help="a running service instead: queries are posted as JSON, by N connections",
    )
    parser.add_argument("--init", action="store_true", help="write commented templates of the files below and exit")
    parser.add_argument("--self-test", action="store_true", help="measure the harness itself (about 15 s) and exit")
    _add_files(parser.add_argument_group("what is asked, and what is to come out"))
    _add_amounts(parser.add_argument_group("how much, and how long"))
    _add_locust(parser.add_argument_group("a running service from many users (needs the extra `http`)"))
    parser.set_defaults(run=load)


def _add_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--queries", default="", metavar="FILE", help="queries as users send them (.jsonl, .csv, .tsv)")
    group.add_argument("--complex", default="", metavar="FILE", help="the worst queries (default: the slowest 5 %%)")
    group.add_argument("--golden", default="", metavar="FILE", help="must-pass cases (.jsonl)")
    group.add_argument("--labelled", default="", metavar="FILE", help="queries with labels, to measure quality")
    group.add_argument(
        "--live", default="", metavar="MODULE:NAME", help="the live model, to compare with on --labelled"
    )
    group.add_argument("--sbs-key", default="", metavar="FILE", help="the key that `mlcheck sbs make` wrote")
    group.add_argument("--sbs-answers", nargs="+", default=[], metavar="FILE", help="the raters' answers (.csv)")
    group.add_argument(
        "--ratings", default="", metavar="FILE", help="scores of both versions (.csv: item, rater, new, live)"
    )
    group.add_argument("--slo", default="", metavar="FILE", help="the limits to keep (.toml)")


def _add_amounts(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--workers", default="", metavar="N,...", help="numbers of processes (default: 1,2,4,8,16)")
    group.add_argument("--rate", type=float, metavar="QPS", help="queries per second (default: 70 %% of capacity)")
    group.add_argument("--duration", type=float, metavar="SECONDS", help="length of each timed phase (default: 10)")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads per worker (default: cores / workers)")
    group.add_argument(
        "--query-timeout", type=float, metavar="SECONDS", help="count longer queries as hangs (default: 30)"
    )
    group.add_argument("--only", action="append", default=[], metavar="RULE,...", help="measure and judge only these")
    group.add_argument("--quick", action="store_true", help="up to 4 workers, phases of 3 seconds")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")


def _add_locust(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--locust", action="store_true", help="send queries at --rate with Locust, from as many users as needed"
    )
    group.add_argument(
        "--longest-stall", type=float, default=1.0, metavar="SECONDS", help="users = rate x this (default: 1)"
    )
    group.add_argument(
        "--locust-processes", type=int, default=1, metavar="N", help="processes on this machine (default: 1)"
    )
    group.add_argument(
        "--locust-expect", type=int, default=0, metavar="N", help="number of workers that join from other machines"
    )
    group.add_argument(
        "--locust-bind", default="*:5557", metavar="HOST:PORT", help="address for them to join (default: *:5557)"
    )
    group.add_argument("--locust-join", default="", metavar="HOST:PORT", help="run as such a worker, with --url")
