"""What a thread of another process waits for, by its state and the system call it is in (Linux)."""

from __future__ import annotations

import os
import platform
from pathlib import Path

# System calls by number, for the two machines that PyTorch is built for most.
_X86 = {
    0: "read", 17: "read", 19: "read", 295: "read", 257: "file", 74: "file", 75: "file", 262: "file",
    7: "poll", 23: "poll", 270: "poll", 271: "poll", 232: "poll", 281: "poll",
    42: "socket", 45: "socket", 47: "socket", 288: "socket", 44: "socket",
    35: "sleep", 230: "sleep", 202: "futex", 73: "lock", 72: "lock", 61: "child",
}  # fmt: skip
_ARM = {
    63: "read", 67: "read", 65: "read", 69: "read", 56: "file", 82: "file", 83: "file", 79: "file",
    73: "poll", 72: "poll", 22: "poll",
    203: "socket", 207: "socket", 212: "socket", 242: "socket", 206: "socket",
    101: "sleep", 115: "sleep", 98: "futex", 32: "lock", 25: "lock", 260: "child",
}  # fmt: skip
_CALLS = {"x86_64": _X86, "aarch64": _ARM}.get(platform.machine(), {})
_PRIVATE_FUTEX = 128
# Where the kernel stands, for those who may not see the system call.
_PLACES = (("futex", "futex"), ("poll", "poll"), ("nanosleep", "sleep"), ("pipe", "pipe"), ("sk_", "socket"),
           ("tcp_", "socket"), ("unix_stream", "socket"), ("flock", "lock"))  # fmt: skip
_REMOTE = ("nfs", "rpc_", "ceph", "fuse", "cifs", "smb", "request_wait_answer", "netfs", "p9_", "v9fs")


def kind_of_wait(pid: int) -> str:
    """`run`, or what its main thread waits for: disk, socket, sleep, poll, pipe, child, ...; empty if unknown.

    `lock` is one that processes share, `thread` another thread of its own, `futex` either where the call is not seen.
    `poll` is either a socket or the queue of the parent: only the stack tells. A file on a network is a `socket`.
    """
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split(maxsplit=1)[0]
    except (OSError, IndexError):
        return ""
    if state == "R":
        return "run"
    if state not in "SDI":
        return ""
    place = _read(f"/proc/{pid}/wchan")
    if any(name in place for name in _REMOTE):
        return "socket"
    if state == "D":
        return "disk"
    call, *arguments = _read(f"/proc/{pid}/syscall").split() or [""]
    kind = _CALLS.get(int(call), "") if call.isdigit() else ""
    if kind == "read":
        return _kind_of_file(pid, int(arguments[0], 16))
    if kind == "futex" and len(arguments) > 1:
        return "thread" if int(arguments[1], 16) & _PRIVATE_FUTEX else "lock"
    if kind == "file":
        return "disk"
    return kind or next((kind for name, kind in _PLACES if name in place), "")


def _kind_of_file(pid: int, descriptor: int) -> str:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
    named = {"pipe:": "pipe", "socket:": "socket"}
    return named.get(target.partition("[")[0], "disk" if target.startswith("/") else "")


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
