"""A process that has imported torch and what examines programs, and forks children which begin with that.

It reads a request a line: to start a child, answered with its number, or to tell how one ended, answered with its exit
code, or null while it runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from typing import Any


def serve() -> None:
    """Answer until the requests end. In a child it returns the code that this child is to run."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        if "child" in request:
            answer = _ended(request)
        else:  # the files are opened here: whoever asks closes them with the answer
            files = [(number, _opened(path)) for number, path in request["files"]]
            answer = os.fork()
            if answer == 0:
                requests.close()
                answers.close()
                _become(request, files)
            for _, file in files:
                os.close(file)
        print(json.dumps(answer), file=answers, flush=True)


def _opened(path: str) -> int:
    """Under a number beyond all that are asked for."""
    file = os.open(path, os.O_RDONLY if path == os.devnull else os.O_WRONLY)
    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 1000)
    finally:
        os.close(file)


def _ended(request: dict[str, Any]) -> int | None:
    found, status = os.waitpid(request["child"], 0 if request["wait"] else os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _become(request: dict[str, Any], files: list[tuple[int, int]]) -> None:
    """What the code sees of its process is what a new interpreter would show."""
    os.setsid()
    for number, file in files:
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = ["-c", *request["arguments"]]
    exec(request["code"], {"__name__": "__main__"})
    sys.exit()
