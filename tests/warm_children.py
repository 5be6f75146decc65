"""A stand-in for the start of the process that examines a program: forked from one that has imported torch already.

A program that does not even build its model costs nearly four seconds of computing otherwise. Whatever tests a whole
command, or `run_child` itself, has its processes started as for a user.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from mlcheck.trial import isolate
from mlcheck.trial.child import child_command

_HOME = Path(__file__).resolve().parent.parent
_BEGIN = """
import sys
sys.path.insert(0, sys.argv[1])
import torch._dynamo
import mlcheck.probe.worker
from tests.child_template import serve
del sys.path[0]
serve()
"""
_WARM = child_command("mlcheck.probe.worker", "")[:-1]


class Template:
    """The process that forks the others, begun when the first is wanted."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: Mapping[str, Any]) -> Any:
        if self._process is None:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            command = [sys.executable, "-c", _BEGIN, str(_HOME)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        if self._process:
            self._process.communicate()


class WarmChild:
    """A forked process, as `subprocess.Popen` would hold it."""

    def __init__(self, template: Template, request: Mapping[str, Any]) -> None:
        self._template = template
        self.pid: int = template.ask(request)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._ended(wait=False)

    def wait(self) -> int | None:
        return self._ended(wait=True)

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def _ended(self, *, wait: bool) -> int | None:
        if self.returncode is None:
            self.returncode = self._template.ask({"child": self.pid, "wait": wait})
        return self.returncode


@contextmanager
def warm_children() -> Iterator[None]:
    """While entered, the processes that examine programs are forked (Linux: they find their files under `/proc`)."""
    template = Template()

    def start(command: list[str], *, cwd: str, env: dict[str, str], stdout: IO[bytes], stderr: IO[bytes],
              pass_fds: tuple[int, ...], **others: Any) -> Any:  # fmt: skip
        if command[:-1] != _WARM:
            return subprocess.Popen(
                command, cwd=cwd, env=env, stdout=stdout, stderr=stderr, pass_fds=pass_fds, **others
            )
        mine = f"/proc/{os.getpid()}/fd"
        files = [(1, f"{mine}/{stdout.fileno()}"), (2, f"{mine}/{stderr.fileno()}")]
        files += [(number, f"{mine}/{number}") for number in pass_fds]
        return WarmChild(template, {
            "files": [(0, os.devnull), *files], "cwd": str(Path(cwd).resolve()), "environment": env,
            "code": command[2], "arguments": command[3:],
        })  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolate, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
        yield
    template.close()
