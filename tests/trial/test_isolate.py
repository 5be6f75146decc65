"""Every way a child process can end is told, and nothing of it is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mlcheck.trial import isolate
from mlcheck.trial.isolate import ChildEnd, End, run_child

CONNECT = "from mlcheck.trial.channel import connect\nchannel = connect()\n"
LONG = 60.0


def child(code: str, time_limit_s: float = LONG, cwd: Path = Path()) -> tuple[ChildEnd, list[dict[str, Any]]]:
    messages: list[dict[str, Any]] = []
    argv = [sys.executable, "-c", CONNECT + code]
    end = run_child(argv, time_limit_s=time_limit_s, cwd=cwd, on_message=messages.append)
    return end, messages


def test_messages_arrive_in_order_and_the_output_is_kept(tmp_path: Path) -> None:
    code = """
import os, sys
print(os.getcwd()); print("to stderr", file=sys.stderr)
for i in range(100):
    channel.send({"i": i, "text": "\\n" + "x" * 5000, "nan": float("nan")})
channel.finish()
"""
    end, messages = child(code, cwd=tmp_path)
    assert end.how is End.FINISHED
    assert end.exit_code == 0
    assert [message["i"] for message in messages] == list(range(100))
    assert messages[0]["text"] == "\n" + "x" * 5000
    assert end.stdout.strip() == str(tmp_path)
    assert end.stderr.strip() == "to stderr"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("import os; os._exit(3)", 3),
        ("import sys; sys.exit(4)", 4),
        ("import sys; sys.exit()", 0),
        ("pass", 0),
        ("1 / 0", 1),
        ("import os; os.closerange(3, 50); channel.send({})", 1),
    ],
)
def test_leaving_early_is_an_exit_whatever_its_code(code: str, exit_code: int) -> None:
    end, messages = child(f"channel.send({{'before': 1}})\n{code}")
    assert (end.how, end.exit_code, end.signal) == (End.EXIT, exit_code, "")
    assert messages == [{"before": 1}]
    assert f"code {exit_code}" in str(end)


def test_the_traceback_of_an_exception_is_in_stderr() -> None:
    end, _ = child("1 / 0")
    assert "ZeroDivisionError" in end.stderr


def test_a_segfault_names_its_signal_and_its_place() -> None:
    end, _ = child("import ctypes\ndef crash_here():\n    ctypes.string_at(0)\ncrash_here()")
    assert (end.how, end.signal, end.exit_code) == (End.SIGNAL, "SIGSEGV", None)
    assert "crash_here" in end.stack
    assert "SIGSEGV" in str(end)


def test_an_abort_names_its_signal() -> None:
    end, _ = child("import os; os.abort()")
    assert (end.how, end.signal) == (End.SIGNAL, "SIGABRT")


def test_a_hang_is_stopped_and_shows_where() -> None:
    end, messages = child("channel.send({}, 0.5)\ndef stuck_here():\n    while True: pass\nstuck_here()")
    assert (end.how, end.limit_s) == (End.TIMEOUT, 0.5)
    assert "stuck_here" in end.stack
    assert messages == [{}]


def test_a_hang_that_ignores_signals_is_stopped_too() -> None:
    code = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
def stuck_here():
    time.sleep(600)
channel.send({}, time_limit_s=0.5)
stuck_here()
"""
    end, _ = child(code)
    assert end.how is End.TIMEOUT
    assert "stuck_here" in end.stack


def test_a_message_restarts_the_clock_and_may_set_it() -> None:
    code = """
import time
channel.send({}, time_limit_s=1.5)
for _ in range(8):
    time.sleep(0.3); channel.send({})
channel.send({"last": True}, time_limit_s=0.5)
time.sleep(600)
"""
    end, messages = child(code)
    assert (end.how, end.limit_s) == (End.TIMEOUT, 0.5)
    assert messages[-1] == {"last": True}
    assert len(messages) == 10, "2.4 s in all, each message within the limit"


def test_a_child_that_hangs_after_its_work_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "_GRACE_S", 0.2)
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\nchannel.finish()"
    end, _ = child(code)
    assert (end.how, end.signal) == (End.FINISHED, "")


def test_grandchildren_are_killed_even_where_they_left_the_group(tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
plain = subprocess.Popen(sleep)
away = subprocess.Popen(sleep, start_new_session=True)
forked = os.fork()
if forked == 0:
    channel.send({"from": "a fork, which must stay silent"})
    import time; time.sleep(600)
channel.send({"pids": [plain.pid, away.pid, forked]})
channel.finish()
os._exit(0)
"""
    end, messages = child(code, cwd=tmp_path)
    assert end.how is End.FINISHED
    (message,) = messages
    pids = message["pids"] if sys.platform == "linux" else message["pids"][::2]
    assert not [pid for pid in pids if alive(pid)]


SHARES = """
import multiprocessing, os, time
from multiprocessing import shared_memory
context = multiprocessing.get_context("spawn")
lock, block = context.Lock(), shared_memory.SharedMemory(create=True, size=4096)
worker = context.Process(target=time.sleep, args=(600,))
worker.start()
tracker = multiprocessing.resource_tracker._resource_tracker._pid
names = [lock._semlock.name.replace("/", "sem."), block.name]
channel.send({"names": names, "pids": [os.getpid(), worker.pid, tracker]})
time.sleep(600)
"""
RUNS = f"""
import json, sys
from pathlib import Path
from mlcheck.trial.isolate import run_child
run_child([sys.executable, "-c", {CONNECT + SHARES!r}], time_limit_s=60, cwd=Path(),
          on_message=lambda message: print(json.dumps(message), flush=True))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and /dev/shm")
@pytest.mark.parametrize("end", ["killed", "hangs"])
def test_shared_memory_and_semaphores_go_with_their_processes(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even of an mlcheck that kill -9 ends while a loader's workers are at work."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if end == "hangs":
        _, (left,) = child(SHARES, time_limit_s=1.0)
    else:
        mlcheck = subprocess.Popen([sys.executable, "-c", RUNS], stdout=subprocess.PIPE)
        assert mlcheck.stdout is not None
        left = json.loads(mlcheck.stdout.readline())
        assert len(shared(left["names"])) == len(left["names"])
        mlcheck.kill()
        mlcheck.communicate()
    assert not [pid for pid in left["pids"] if alive(pid)]
    until = time.monotonic() + 30
    while (remain := [*tmp_path.iterdir(), *shared(left["names"])]) and time.monotonic() < until:
        time.sleep(0.05)
    assert remain == []


def shared(names: list[str]) -> list[Path]:
    """Those of them that still are in shared memory."""
    return [path for path in (Path("/dev/shm", name) for name in names) if path.exists()]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that init has yet to collect does not."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.05)
    return True


def test_a_kill_for_want_of_memory_is_told_from_another_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    end, _ = child(code)
    assert (end.how, end.signal) == (End.SIGNAL, "SIGKILL")
    kills = iter([3, 4])
    monkeypatch.setattr(isolate, "oom_kills", lambda: next(kills))
    end, _ = child(code)
    assert end.how is End.OUT_OF_MEMORY
    assert "memory" in str(end)


def test_garbage_in_the_pipe_is_passed_over() -> None:
    code = """
import os
os.write(channel._descriptor, b"not json\\n[1]\\n\\xff\\xfe\\n")
channel.send({"ok": 1})
channel.finish()
os.write(channel._descriptor, b'{"half": ')
"""
    end, messages = child(code)
    assert end.how is End.FINISHED
    assert messages == [{"ok": 1}]


def test_input_finds_the_end_of_the_file() -> None:
    end, _ = child("input()")
    assert "EOFError" in end.stderr


def test_an_error_in_the_listener_ends_the_child_and_passes_through() -> None:
    pids: list[int] = []

    def listen(message: dict[str, Any]) -> None:
        pids.append(message["pid"])
        raise KeyError("listener")

    code = CONNECT + "import os, time\nchannel.send({'pid': os.getpid()})\ntime.sleep(600)"
    with pytest.raises(KeyError):
        run_child([sys.executable, "-c", code], time_limit_s=LONG, cwd=".", on_message=listen)
    assert not alive(pids[0])


def test_a_program_that_cannot_start_raises() -> None:
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    with pytest.raises(FileNotFoundError):
        run_child(["/no/such/program"], time_limit_s=1, cwd=".", on_message=print)
    assert before == (set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set())


PARENT = """
import sys
from mlcheck.trial.isolate import run_child
code = '''{code}'''
run_child([sys.executable, "-c", code], time_limit_s=60, cwd=".", on_message=lambda m: print(m["pid"], flush=True))
"""
STUBBORN = (
    CONNECT
    + """
import os, signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
channel.send({"pid": os.getpid()})
time.sleep(600)
"""
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopping_mlcheck_leaves_no_child(number: signal.Signals) -> None:
    """Ctrl-C, a plain kill, and (on Linux) even a kill that leaves no time to clean up."""
    if number is signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux ends a child with its parent")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(code=STUBBORN)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(number)
        parent.wait(timeout=30)
    assert not alive(pid)


def test_works_outside_the_main_thread() -> None:
    ends: list[ChildEnd] = []
    thread = threading.Thread(target=lambda: ends.append(child("channel.finish()")[0]))
    thread.start()
    thread.join()
    assert ends[0].how is End.FINISHED


def test_neither_side_imports_more_than_the_standard_library() -> None:
    code = "import sys, mlcheck.trial.isolate, mlcheck.trial.channel; print({'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_connect_outside_of_a_child_says_so() -> None:
    from mlcheck.trial.channel import connect

    with pytest.raises(RuntimeError, match="run_child"):
        connect()


def test_what_json_does_not_know_is_told_as_text() -> None:
    """A sample's name may be whatever the user's data set takes for one."""
    _, heard = child("from pathlib import Path; channel.send({'sample': Path('a.png')}); channel.finish()")
    assert heard == [{"sample": "a.png"}]
