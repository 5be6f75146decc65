"""The files of a program that ran: modules, from bytecode too, the program itself, none of a package's or mlcheck's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import mlcheck

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from mlcheck.trial.ran import Ran
ran = Ran()
ran.begin()
import json
import yaml
import mlcheck.core.plural
import used
import package.inner
path = sys.argv[2]
exec(compile(open(path).read(), path, "exec"), {})
exec("x = 1")
print("\\n".join(ran.files()))
"""


def test_files_whose_code_was_executed(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("used.py", "unused.py", "package/__init__.py", "package/inner.py", "script.py"):
        (tmp_path / name).write_text("x = 1\n")
    home = str(Path(mlcheck.__file__).parent.parent)
    for _ in ("from source", "from bytecode"):
        command = [sys.executable, "-c", dedent(PROGRAM), home, "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        names = [str(Path(line).relative_to(tmp_path.resolve())) for line in done.stdout.split()]
        assert names == ["package/__init__.py", "package/inner.py", "script.py", "used.py"]
