"""How often a sound example raises an alarm: every probe on every sound example, over many seeds.

    python tests/benchmarks/sound_examples.py --seeds 20

Ends with exit code 1 if there was any alarm.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from mlcheck.core.outcome import By, Outcome
from mlcheck.report.json import read

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ENTRIES = {
    "diabetes": "model_def:DiabetesTrial",
    "digits": "model_def:DigitsTrial",
    "digits_function": "train:build",
    "wine_loop": "train:build",
    "wine_script": "train.py",
}
ALARMS = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", default="", help="one example by its folder's name")
    arguments = parser.parse_args()
    folders = [EXAMPLES / name for name in ENTRIES]
    alarms = 0
    for folder in folders:
        if arguments.only and folder.name != arguments.only:
            continue
        started = time.perf_counter()
        outcomes: Counter[tuple[str, str]] = Counter()
        for seed in range(arguments.seeds):
            for rule, outcome, headline in probe(folder, seed):
                outcomes[rule, outcome.value] += 1
                if outcome in ALARMS:
                    alarms += 1
                    print(f"  {folder.name}, seed {seed}: {rule}: {outcome.value}: {headline}", flush=True)
        print(f"{folder.name}: {arguments.seeds} seeds in {time.perf_counter() - started:.0f} s")
        for (rule, outcome), count in sorted(outcomes.items()):
            print(f"  {rule:<32}{outcome:<14}{count}", flush=True)
    print(f"{alarms} alarms")
    return 1 if alarms else 0


def probe(folder: Path, seed: int) -> list[tuple[str, Outcome, str]]:
    """Rule, outcome and headline of every probe; through the command, as a user runs it."""
    entry = ENTRIES[folder.name]
    config = ["--config", "experiment.yaml"] if (folder / "experiment.yaml").exists() else []
    command = [sys.executable, "-m", "mlcheck", "probe", entry, *config, "--seed", str(seed), "--format", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{folder.name}, seed {seed}: {done.stderr}")
    items = read(done.stdout).items()
    return [(i.decided.rule, i.outcome, i.decided.headline) for i in items if i.decided.by is By.PROBE]


if __name__ == "__main__":
    sys.exit(main())
