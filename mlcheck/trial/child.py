"""The command that runs a module of mlcheck's own in an interpreter of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import mlcheck

HOME = str(Path(mlcheck.__file__).resolve().parent.parent)
# The folder of mlcheck and the job leave `sys` again: the user's program finds it as a plain interpreter has it.
_CODE = """
import sys
home, module, job = sys.argv[1:]
sys.path.insert(0, home)
from importlib import import_module
main = import_module(module).main
del sys.path[0], sys.argv[1:]
main(job)
"""


def child_command(module: str, job: str) -> list[str]:
    """Arguments that call `module`'s `main(job)`, whether or not mlcheck is installed for that interpreter."""
    return [sys.executable, "-c", _CODE, HOME, module, job]
