"""The `mlcheck` command: the only package that prints, and the only one that decides exit codes.

Exit codes: 0 clean, 1 findings, 2 misuse or a check that broke.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from mlcheck.cli.commands import CLEAN, MISUSE
from mlcheck.cli.parser import build_parser
from mlcheck.core.mistake import Mistake

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except Mistake as mistake:
        print(f"mlcheck: {mistake}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        print("mlcheck: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`mlcheck lint | head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLEAN
