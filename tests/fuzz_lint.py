"""Lint whatever Python there is and report what should never be: internal errors and slow files.

    python tests/fuzz_lint.py /usr/lib/python3 .venv/lib          # as `mlcheck lint` would read it
    python tests/fuzz_lint.py --stress /usr/lib/python3           # every function interpreted, relevant or not
    python tests/fuzz_lint.py --circles 5000                      # made-up programs whose files import each other
    python tests/fuzz_lint.py --whole .venv/lib/site-packages     # every package at once: files that import each other

Files are read in batches, each in a process of its own with a limit of processor time, which what else the machine
does leaves alone; of files with the same content, one.
Exit code 1 when anything was found.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent / "lint"))

from circles import circle

from mlcheck.core.outcome import Outcome
from mlcheck.lint.engine import Crash, analyse
from mlcheck.lint.files.discover import PythonFile, discover
from mlcheck.lint.files.source import Source, Unreadable, parse
from mlcheck.lint.interpret import roots
from mlcheck.lint.interpret.effort import Effort
from mlcheck.lint.interpret.relevance import Relevance
from mlcheck.lint.run import LintSettings, run_lint

BATCH = 60
SECONDS_PER_BATCH = 120
"""Of the processor; by the clock, ten times that."""
SLOW = 2.0
"""Seconds for one batch beyond 0.5 per MB."""
STRESS_STEPS = 400
"""Steps for each function."""
MOST_MEMORY = 8_000_000_000
"""Bytes of addresses for one process."""
SECONDS_PER_MB = 6.0
"""Of a whole package, whose files are parsed, joined and followed."""


def main() -> int:
    """Run all batches and print what went wrong."""
    parser = argparse.ArgumentParser(description="Lint whatever Python there is; report crashes and slow files.")
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--stress", action="store_true", help="interpret every function, relevant or not")
    parser.add_argument("--whole", action="store_true", help="lint each folder in FOLDER as the program it is")
    parser.add_argument("--circles", type=int, default=0, metavar="N", help="make N programs, and lint each")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth batch only")
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch:
        paths = [line for line in sys.stdin.read().split("\0") if line]
        return run_whole(paths) if arguments.whole else run_batch(paths, arguments.stress)
    if arguments.circles:
        return run_circles(arguments.circles, arguments.stress)
    files, bad, began = 0, 0, time.monotonic()
    found = packages(arguments.folders) if arguments.whole else batches(arguments.folders)
    options = [*["--stress"] * arguments.stress, *["--whole"] * arguments.whole]
    for number, batch in enumerate(found):
        if number % arguments.every:
            continue
        files += len(discover(batch).files) if arguments.whole else len(batch)
        bad += not examine(batch, options)
        if number % 50 == 0:
            print(f"{files} files, {bad} bad batches, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{files} files in {time.monotonic() - began:.0f} s, {bad} bad batches")
    return 1 if bad else 0


def batches(folders: list[str]) -> Iterator[list[str]]:
    """Files that lie together, a batch at a time; hidden and ignored ones too, but none that was there before."""
    batch: list[str] = []
    known: set[bytes] = set()
    for folder in folders:
        for root, inner, names in os.walk(folder):
            inner.sort()
            for name in sorted(names):
                path = os.path.join(root, name)
                if name.endswith((".py", ".pyi")) and is_new(path, known):
                    batch.append(path)
                if len(batch) == BATCH:
                    yield batch
                    batch = []
    if batch:
        yield batch


def packages(folders: list[str]) -> Iterator[list[str]]:
    """Each folder that lies in one of these and has Python in it."""
    for folder in folders:
        for entry in sorted(Path(folder).iterdir()):
            if entry.is_dir() and not entry.is_symlink() and discover([str(entry)]).files:
                yield [str(entry)]


def is_new(path: str, known: set[bytes]) -> bool:
    """Whether it is a file, and none of the same content was met so far."""
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    content = hashlib.sha256(Path(path).read_bytes()).digest()
    fresh = content not in known
    known.add(content)
    return fresh


def examine(batch: list[str], options: list[str]) -> bool:
    """Lint one batch in a process; print what went wrong and return whether nothing did."""
    command = [sys.executable, __file__, "--batch", *options, "."]
    try:
        done = subprocess.run(
            command, input="\0".join(batch), capture_output=True, text=True, timeout=10 * SECONDS_PER_BATCH, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"TIMEOUT {batch[0]} .. {batch[-1]}", flush=True)
        return False
    if done.returncode == -signal.SIGXCPU:
        print(f"TIMEOUT {batch[0]} .. {batch[-1]}", flush=True)
        return False
    if done.returncode or done.stdout:
        print(done.stdout, done.stderr[-2000:], f"in {batch[0]} .. {batch[-1]}", flush=True)
    return not done.returncode


def run_batch(paths: list[str], stress: bool) -> int:
    """The work of one process."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_PER_BATCH, SECONDS_PER_BATCH + 5))
    if stress:
        everything_matters()
    sources = list(read(paths))
    size, began = sum(len(source.text) for source in sources if isinstance(source, Source)), time.process_time()
    crashes = [answer for answer in analyse(sources) if isinstance(answer, Crash)]
    seconds = time.process_time() - began
    for crash in crashes:
        print(f"CRASH {crash.rule or 'interpreter'} {crash.path}\n{crash.traceback}")
    slow = not stress and seconds > SLOW + size / 2e6
    if slow:
        print(f"SLOW {seconds:.1f} s for {size / 1e6:.1f} MB")
    return 1 if crashes or slow else 0


def run_circles(number: int, stress: bool) -> int:
    """Made-up programs, one after the other; how many crashed or took long, with the seeds that make them again."""
    if stress:
        everything_matters()
    bad = 0
    for seed in range(number):
        began = time.process_time()
        crashes = [answer for answer in analyse(circle(Random(seed))) if isinstance(answer, Crash)]
        seconds = time.process_time() - began
        for crash in crashes:
            print(f"CRASH {crash.rule or 'interpreter'} in the program of seed {seed}\n{crash.traceback}", flush=True)
        if seconds > SLOW:
            print(f"SLOW {seconds:.1f} s for the program of seed {seed}", flush=True)
        bad += bool(crashes) or seconds > SLOW
    print(f"{number} made-up programs, {bad} bad")
    return 1 if bad else 0


def run_whole(folders: list[str]) -> int:
    """The work of one process: the rules on one program, read, grouped and asked as `mlcheck lint` does it."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    size = sum(os.path.getsize(file.path) for file in discover(folders).files)
    most = int(SLOW + SECONDS_PER_MB * size / 1e6)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_PER_BATCH + most, SECONDS_PER_BATCH + most + 5))
    report = run_lint(folders, LintSettings())
    seconds = time.process_time()
    failed = [result for result in report.results if result.outcome is Outcome.ERROR]
    for result in failed:
        print(f"CRASH {result.rule} in {folders[0]}\n{result.traceback or result.reason}")
    if seconds > most:
        print(f"SLOW {seconds:.1f} s for {size / 1e6:.1f} MB in {folders[0]}")
    return 1 if failed or seconds > most else 0


def read(paths: list[str]) -> Iterator[Source | Unreadable]:
    named = {file.path: file for file in discover(paths).files}
    for path in paths:
        module = named[path].module if path in named else Path(path).stem
        file = PythonFile(path, module)
        yield parse(file.path, Path(path).read_bytes(), file.module)


def everything_matters() -> None:
    """Take the filters away that keep the interpreter from code without training in it."""
    Relevance.to_read = lambda *_: True  # type: ignore[method-assign]
    Relevance.to_start = lambda *_: True  # type: ignore[method-assign]
    Relevance.to_follow = lambda *_: True  # type: ignore[method-assign]
    roots.is_test = lambda _: False  # type: ignore[attr-defined, assignment]
    restart = Effort.restart
    Effort.restart = lambda self, steps: restart(self, min(steps, STRESS_STEPS))  # type: ignore[method-assign]


if __name__ == "__main__":
    raise SystemExit(main())
