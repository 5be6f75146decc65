"""The `mlcheck` command: the only package that prints, and the only one that decides exit codes.

Exit codes: 0 clean, 1 findings, 2 misuse or a check that broke.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from mlcheck import __version__

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if list(words) == ["--version"]:  # nothing has to be loaded for it
        print(f"mlcheck {__version__}")
        return 0
    try:
        return _run_uncollected(words) if argv is None and words[:1] == ["lint"] else _run(words)
    except KeyboardInterrupt:  # also while mlcheck itself is still being imported
        print("mlcheck: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _run_uncollected(words: Sequence[str]) -> int:
    """All that this process does. Looking for cycles among what is loaded, and once more at its end, gains nothing."""
    gc.disable()
    try:
        return _run(words)
    finally:
        gc.freeze()


def _run(words: Sequence[str]) -> int:
    from mlcheck.cli.output import CLEAN, MISUSE
    from mlcheck.cli.parser import parse
    from mlcheck.cli.streams import complain, make_safe
    from mlcheck.core.mistake import Mistake

    make_safe()
    own, script = _split(words)
    arguments = parse(own)
    arguments.script_arguments = script
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except Mistake as mistake:
        complain(str(mistake))
        return MISUSE
    except BrokenPipeError:
        # The reader of our output has gone (`mlcheck lint | head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN


def _split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """What follows `--` is the own command line of a script to be run; to `lint` it is files."""
    cut = argv.index("--") if "--" in argv and argv[0] in {"probe", "check"} else len(argv)
    return list(argv[:cut]), tuple(argv[cut + 1 :])
