"""How long `mlcheck lint` takes, beside the least that could be done: `python tests/benchmarks/lint.py [FOLDER...]`.

Whole processes, start-up included, take turns within one run, so that what else the machine does meets all alike.
One file of 5 KB: against `python -c pass`. Folders: against a process that parses the same files with `ast.parse`,
and against `ruff check` where ruff is installed. `--profile FOLDER` says instead where the time of one run goes.
Processor seconds, medians; compare the ratios, not the seconds, between machines.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from mlcheck.lint.discover import discover

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "lint" / "fixtures" / "validation-in-the-middle-of-an-epoch" / "train.py"
PASS = [sys.executable, "-c", "pass"]
LINT = [sys.executable, "-m", "mlcheck", "lint", "--no-cache"]
RUFF = [sys.executable, "-m", "ruff", "check", "--no-cache", "--isolated", "--quiet", "--select", "F,E,B,NPY,PERF"]
PARSE = [
    sys.executable,
    "-c",
    (
        "import ast, sys\n"
        "for path in open(sys.argv[1], encoding='utf-8').read().split('\\0'):\n"
        "    try:\n"
        "        ast.parse(open(path, 'rb').read())\n"
        "    except (SyntaxError, ValueError):\n"
        "        pass\n"
    ),
]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Time mlcheck lint against python -c pass and ast.parse.")
    parser.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="default: parts of the installed torch, and mlcheck"
    )
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--profile", metavar="FOLDER", help="profile one run over this folder, and measure nothing")
    arguments = parser.parse_args()
    if arguments.profile:
        profile(arguments.profile)
        return
    folders = arguments.folders or default_folders()
    with tempfile.TemporaryDirectory() as scratch:
        measured = [*one_file(Path(scratch), arguments.repetitions)]
        for folder in folders:
            measured += whole_folder(folder, Path(scratch), max(3, arguments.repetitions // 2))
    print(f"{'what':46} {'files':>6} {'KB':>8} {'base s':>8} {'lint s':>8} {'ratio':>6} {'spread':>12}")
    for line in measured:
        print(line)


def profile(folder: str) -> None:
    """Where the time of one run goes: the functions of the linter that take most of it themselves."""
    command = ["-m", "cProfile", "-s", "tottime", "-m", "mlcheck", "lint", "--no-cache", "--format", "concise", folder]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    table = done.stdout[done.stdout.index("function calls") :].splitlines()
    print("\n".join(table[:45]))


def default_folders() -> list[str]:
    torch = Path(sysconfig.get_paths()["purelib"]) / "torch"
    parts = [torch / "nn", torch / "optim", torch / "distributed" / "fsdp", ROOT / "mlcheck"]
    return [str(part) for part in parts if part.is_dir()]


def one_file(scratch: Path, repetitions: int) -> list[str]:
    """A training script of about 5 KB, clean, against an interpreter that does nothing."""
    text = PROGRAM.read_text("utf-8")
    script = scratch / "train.py"
    script.write_text(text + "\n\n" + text.replace("train_model", "train_again"), encoding="utf-8")
    base, lint = in_turn([PASS, [*LINT, str(script)]], repetitions * 3)
    return [row("one file, against python -c pass", 1, script.stat().st_size, base, lint)]


def whole_folder(folder: str, scratch: Path, repetitions: int) -> list[str]:
    files = [file.path for file in discover([folder]).files]
    names = scratch / "names"
    names.write_text("\0".join(files), encoding="utf-8")
    rivals = {"ast.parse": [*PARSE, str(names)]}
    if importlib.util.find_spec("ruff"):
        rivals["ruff"] = [*RUFF, folder]
    *bases, lint = in_turn([*rivals.values(), [*LINT, folder]], repetitions)
    size = sum(Path(path).stat().st_size for path in files)
    return [
        row(f"{folder[-28:]}, against {name}", len(files), size, base, lint)
        for name, base in zip(rivals, bases, strict=True)
    ]


def in_turn(commands: list[list[str]], repetitions: int) -> list[list[float]]:
    """Processor seconds of each command, run one after the other in turn; the first round is not counted."""
    seconds: list[list[float]] = [[] for _ in commands]
    for repetition in range(repetitions + 1):
        for command, taken in zip(commands, seconds, strict=True):
            start = spent()
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
            elapsed = spent() - start
            if done.returncode not in (0, 1):
                raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.decode()[-500:]}")
            if repetition:
                taken.append(elapsed)
    return seconds


def spent() -> float:
    """Processor seconds of all processes started and ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(what: str, files: int, size: int, base: list[float], lint: list[float]) -> str:
    """Medians, their ratio, and the smallest and largest ratio of runs that followed one another."""
    ratios = sorted(mine / theirs for theirs, mine in zip(base, lint, strict=True))
    middle, other = statistics.median(base), statistics.median(lint)
    spread = f"{ratios[0]:.1f} .. {ratios[-1]:.1f}"
    return f"{what:46} {files:6} {size / 1024:8.0f} {middle:8.3f} {other:8.3f} {other / middle:6.2f} {spread:>12}"


if __name__ == "__main__":
    main()
