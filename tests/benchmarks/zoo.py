"""How often a sound model raises an alarm: every probe on every model of the zoo.

    python tests/benchmarks/zoo.py                        # all of them, one seed: about half an hour
    python tests/benchmarks/zoo.py --only sequence: --seeds 5
    python tests/benchmarks/zoo.py --json zoo.json        # keeps what was said

The models (`zoo_models/`) are small, sound and of every kind, those of torch-geometric where it is installed: what
fails or warns about one is a false alarm. No alarm in n models bounds the rate of false alarms below 3/n with 95 %
confidence (Hanley and Lippman-Hand 1983).
Ends with exit code 1 if any probe failed on a model.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from mlcheck.core.outcome import By, Outcome
from mlcheck.report.json import read

MODELS = Path(__file__).with_name("zoo_models")
NEEDS = {"libraries": "transformers", "geometric": "torch_geometric"}
"""Models of a library that is not installed are left out."""
ALARMS = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="entries that contain this")
    parser.add_argument("--json", type=Path, help="write every alarm here")
    arguments = parser.parse_args()
    said, outcomes, models = [], Counter[str](), 0
    for entry in entries():
        if arguments.only not in entry:
            continue
        models += 1
        for seed in range(arguments.seeds):
            started = time.perf_counter()
            found = probe(entry, seed)
            outcomes.update(outcome.value for _, outcome, _ in found)
            alarms = [f for f in found if f[1] in ALARMS]
            print(f"{entry:<36}seed {seed}{time.perf_counter() - started:>7.1f} s{len(alarms):>4} alarms", flush=True)
            for rule, outcome, headline in alarms:
                print(f"    {outcome.value}: {rule}: {headline}", flush=True)
                said.append({"model": entry, "seed": seed, "rule": rule, "outcome": outcome, "headline": headline})
    report(said, outcomes, models, arguments.seeds)
    if arguments.json:
        arguments.json.write_text(json.dumps(said, indent=1), encoding="utf-8")
    return any(alarm["outcome"] is not Outcome.WARN for alarm in said)


def entries() -> list[str]:
    """Every public function without parameters that returns the parts of a program."""
    found = []
    for path in sorted(MODELS.glob("*.py")):
        if path.stem in ("data", "faulty") or not find_spec(NEEDS.get(path.stem, "torch")):
            continue
        functions = (n for n in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef))
        found += [f"{path.stem}:{f.name}" for f in functions if not f.args.args and not f.name.startswith("_")]
    return found


def probe(entry: str, seed: int) -> list[tuple[str, Outcome, str]]:
    """Rule, outcome and headline of every probe; through the command, as a user runs it."""
    command = [sys.executable, "-m", "mlcheck", "probe", entry, "--seed", str(seed), "--format", "json"]
    done = subprocess.run(command, cwd=MODELS, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{entry}, seed {seed}: {done.stderr}")
    decided = [(item, item.decided) for item in read(done.stdout).items()]
    return [(d.rule, item.outcome, d.headline) for item, d in decided if d.by is By.PROBE]


def report(said: list[dict[str, object]], outcomes: Counter[str], models: int, seeds: int) -> None:
    print("verdicts:", ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))
    for alarm in (Outcome.ERROR, Outcome.FAIL, Outcome.WARN):
        touched = {each["model"] for each in said if each["outcome"] is alarm}
        bound = f", so below {3 / models:.1%} of sound models" if models > 3 and not touched else ""
        print(f"{alarm.value}: on {len(touched)} of {models} models{bound} ({seeds} seeds each)")


if __name__ == "__main__":
    sys.exit(main())
