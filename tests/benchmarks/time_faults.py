"""How often the cause of a slow loop is named: every program of `time_fault_programs.py`, through the command line.

    python tests/benchmarks/time_faults.py                 # 12 faults and 3 clean loops, about 5 minutes
    python tests/benchmarks/time_faults.py --only cold     # those whose name contains it

A fault is `found` when the rule that is about it gives a finding, `named` when the finding says the right cause,
`unclear` when there is no verdict, and `wrong` when any finding of these rules says something else. A clean loop is
wrong with any finding. Ends with exit code 1 where anything is wrong or fewer than `--least` of the faults are named.
The noisy neighbour is named by the reason for which there is no verdict.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report
from mlcheck.report.json import read

MARK = "MLCHECK_KIT"
PROGRAMS = Path(__file__).with_name("time_fault_programs.py")
RULES = ("loader-slower-than-step", "workers-fight-for-cores", "step-mostly-overhead", "sync-in-loop")


@dataclass(frozen=True)
class Case:
    """A program, the rule that must speak, and words of which one must be in what it says."""

    program: str
    rule: str = ""
    words: tuple[str, ...] = ()
    neighbours: bool = False


CASES = (
    Case("cpu_heavy_transform", RULES[0], ("loading computes",)),
    Case("cold_disk", RULES[0], ("waits for the disk",)),
    Case("slow_remote", RULES[0], ("waits for another machine",)),
    Case("lock_in_getitem", RULES[0], ("waits for a lock",)),
    Case("huge_collate", RULES[0], ("joins samples",)),
    Case("pickled_batches", RULES[0], ("hands batches over",)),
    Case("heavy_decode_without_workers", RULES[0], ("take turns",)),
    Case("workers_fight_for_cores", RULES[1], ("fight for",)),
    Case("tiny_batches", RULES[2], ("too small",)),
    Case("python_overhead", RULES[2], ("Python and launching",)),
    Case("item_every_step", RULES[3], (".item()",)),
    Case("noisy_neighbour", RULES[0], ("other programs used",), neighbours=True),
    Case("clean_compute"),
    Case("clean_workers"),
    Case("clean_records"),
)


@dataclass
class Outcomes:
    found: int = 0
    named: int = 0
    unclear: int = 0
    wrong: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--least", type=int, default=11, help="how many faults must be named")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in case.program]
    total = Outcomes()
    for case in cases:
        begun, load = time.perf_counter(), os.getloadavg()[0]
        with neighbours(2 * (os.cpu_count() or 1) if case.neighbours else 0):
            report, left = probed(case.program)
        told = judged(case, report, total)
        print(f"{case.program:<30}{told}", f"  ({time.perf_counter() - begun:.0f} s, load {load:.1f})", flush=True)
        left += leftovers(_BEGUN)
        if left:
            total.wrong += 1
            print(f"  left behind: {', '.join(left)}")
    faults = sum(1 for case in cases if case.rule)
    print(f"{faults} faults: {total.found} found, {total.named} named, {total.unclear} unclear, {total.wrong} wrong")
    return 1 if total.wrong or total.named < min(arguments.least, faults) else 0


def probed(program: str) -> tuple[Report, list[str]]:
    """Through the command, as a user runs it; and what lies where temporary files go, afterwards."""
    only = [part for rule in RULES for part in ("--only", rule)]
    command = [sys.executable, "-m", "mlcheck", "probe", f"{PROGRAMS.name}:{program}", *only, "--format", "json"]
    with tempfile.TemporaryDirectory(prefix="kit-") as folder:
        names = {**os.environ, MARK: program, "TMPDIR": folder}
        done = subprocess.run(command, cwd=PROGRAMS.parent, env=names, capture_output=True, text=True, check=False)
        left = [path.name for path in Path(folder).iterdir()]
    if not done.stdout:
        raise SystemExit(f"{program}: {done.stderr}")
    return read(done.stdout), left


def judged(case: Case, report: Report, total: Outcomes) -> str:
    """Count what was said about a program, and tell it in a line."""
    said = {result.rule: result for result in report.results if result.rule in RULES}
    alarms = {rule: r for rule, r in said.items() if r.outcome in (Outcome.WARN, Outcome.FAIL, Outcome.ERROR)}
    strange = [f"{rule}: {result.headline}" for rule, result in alarms.items() if rule != case.rule]
    mine = said.get(case.rule)
    text = " ".join([*(f.message for f in mine.findings), mine.reason]) if mine else ""
    named = any(word in text for word in case.words)
    unclear = bool(mine) and mine is not None and mine.outcome is Outcome.INCONCLUSIVE
    if case.rule in alarms and not named:
        strange.append(text)
    total.found += bool(case.rule) and (case.rule in alarms or (case.neighbours and named))
    total.named += bool(case.rule) and named
    total.unclear += unclear and not named
    total.wrong += len(strange)
    if strange:
        return f"WRONG    {'; '.join(strange)}"
    if not case.rule:
        return "silent"
    return f"named    {text}" if named else f"unclear  {text}" if unclear else "missed"


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Programs of somebody else's that use the cores."""
    code = "while True: pass"
    burning = [subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def leftovers(since: float) -> list[str]:
    """Processes of the kit's probes that still run, and shared memory whose process is gone."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}=".encode() in (entry / "environ").read_bytes():
                found.append(f"process {entry.name}")
        except OSError:
            continue
    shared = [path for path in Path("/dev/shm").glob("torch_*") if path.stat().st_mtime > since]
    return found + [str(path) for path in shared if not Path(f"/proc/{path.name.split('_')[1]}").exists()]


_BEGUN = time.time()

if __name__ == "__main__":
    sys.exit(main())
