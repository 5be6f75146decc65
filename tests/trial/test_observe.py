"""What is read of processes from outside, and what is said where the system does not tell it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mlcheck.trial.observe import counters, gpu, stacks, waits, watch
from mlcheck.trial.observe.gpu import GpuWatch
from mlcheck.trial.observe.stacks import Frame, SampledWorker, Sampler, parsed, spied, worker_looks
from mlcheck.trial.observe.watch import Watch

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
WAITING = {
    "sleep": "import time; time.sleep(60)",
    "lock": "import _multiprocessing as m; s = m.SemLock(1, 0, 1, '/mlcheck-test', True); s.acquire()",
    "thread": "import threading; threading.Event().wait()",
    "socket": "import socket; s = socket.create_server(('127.0.0.1', 0)); s.accept()",
    "pipe": "import os; r, w = os.pipe(); os.read(r, 1)",
    "poll": "import select, os; r, w = os.pipe(); select.select([r], [], [])",
    "run": "while True: pass",
}


@pytest.fixture
def waiting(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", f"print(flush=True); {WAITING[request.param]}"
                                if request.param != "run" else "print(flush=True)\nwhile True: pass"],
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


@linux
@pytest.mark.parametrize(("waiting", "kind"), [(kind, kind) for kind in WAITING], indirect=["waiting"])
def test_what_a_process_waits_for_is_read_off_the_kernel(waiting: subprocess.Popen[bytes], kind: str) -> None:
    end = time.monotonic() + 10
    while (seen := waits.kind_of_wait(waiting.pid)) != kind and time.monotonic() < end:
        time.sleep(0.02)
    assert seen == kind


def test_nothing_is_said_of_a_process_that_is_gone() -> None:
    assert waits.kind_of_wait(-1) == ""
    assert counters.of_process(-1) == {}


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"stat": "7 (a) b) R 1", "wchan": "0"}, "run"),
        ({"stat": "7 (a) D 1", "wchan": "folio_wait_bit_common"}, "disk"),
        ({"stat": "7 (a) D 1", "wchan": "rpc_wait_bit_killable"}, "socket"),
        ({"stat": "7 (a) S 1", "wchan": "hrtimer_nanosleep"}, "sleep"),  # the system call may not be seen
        ({"stat": "7 (a) S 1", "wchan": "futex_wait_queue"}, "futex"),
        ({"stat": "7 (a) S 1", "wchan": "0"}, ""),
        ({"stat": "7 (a) Z 1", "wchan": "0"}, ""),
    ],
)
def test_without_the_system_call_the_kernels_place_tells(
    files: dict[str, str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text(path: Path, *_: object, **__: object) -> str:
        if path.name not in files:
            raise PermissionError(path)
        return files[path.name]

    monkeypatch.setattr(Path, "read_text", text)
    assert waits.kind_of_wait(7) == kind


def test_a_system_without_schedstat_and_pressure_leaves_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given = counters._text

    def some(path: str) -> str:
        if "schedstat" in path or "pressure" in path:
            raise FileNotFoundError(path)
        return given(path)

    monkeypatch.setattr(counters, "_text", some)
    assert "delay" not in counters.of_process(os.getpid())
    assert not {"cpu", "io"} & counters.of_machine().keys()


@linux
def test_a_phase_tells_processor_time_and_waiting_of_this_process() -> None:
    with Watch() as watch:
        with watch.phase("busy"):
            end = time.thread_time() + 0.4
            while time.thread_time() < end:
                pass
        with watch.phase("idle"):
            time.sleep(0.4)
    busy, idle = watch.phases()["busy"].trainer, watch.phases()["idle"].trainer
    assert busy.main > 5 * idle.main
    assert idle.waits.get("sleep", 0) > 0.5
    assert watch.phases()["idle"].workers == 0
    assert not Path(watch._folder.name).exists()


def test_without_proc_nothing_is_watched_and_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_text", lambda path: (_ for _ in ()).throw(FileNotFoundError(path)))
    with Watch() as watch, watch.phase("busy"):
        pass
    assert watch.phases() == {}


@linux
def test_the_watching_process_ends_with_the_one_it_watches(tmp_path: Path) -> None:
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from mlcheck.trial.observe.watch import Watch\n"
        "with Watch() as watch:\n"
        "    print(watch._process.pid, flush=True); time.sleep(60)\n"
    )
    home = str(Path(stacks.__file__).parents[3])
    names = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code, home]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=names)
    assert process.stdout is not None
    observer = int(process.stdout.readline())
    process.kill()
    process.communicate()
    end = time.monotonic() + 10
    while Path(f"/proc/{observer}/cmdline").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{observer}").exists() or "Z" in Path(f"/proc/{observer}/stat").read_text()


def test_without_py_spy_or_its_rights_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[bool] = []
    monkeypatch.setattr(stacks, "py_spy", lambda: "")
    assert spied(lambda: ran.append(True), 1.0, tmp_path).why_not == "py-spy is not installed"
    refusing = tmp_path / "py-spy"
    refusing.write_text(
        "#!/bin/sh\necho 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1\n"
    )
    refusing.chmod(0o755)
    monkeypatch.setattr(stacks, "py_spy", lambda: str(refusing))
    found = spied(lambda: ran.append(True), 1.0, tmp_path)
    assert found.tool == ""
    assert "ptrace is not permitted" in found.why_not
    assert ran
    monkeypatch.setattr(stacks, "py_spy", lambda: str(tmp_path / "absent"))
    assert "cannot be started" in spied(lambda: None, 1.0, tmp_path).why_not


def test_what_is_looked_at_goes_on_until_py_spy_has_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = tmp_path / "py-spy"
    late.write_text("#!/bin/sh\nwhile [ ! -e ran-3 ]; do sleep 0.02; done\nexit 1\n")
    late.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stacks, "py_spy", lambda: str(late))
    ran: list[int] = []

    def look() -> None:
        ran.append(len(ran))
        Path(f"ran-{len(ran)}").touch()
        time.sleep(0.05)

    assert "py-spy failed" in spied(look, 1.0, tmp_path).why_not
    assert len(ran) >= 3


def doze() -> None:
    time.sleep(0.3)


def test_a_thread_sees_where_the_program_stands_and_a_worker_writes_it(tmp_path: Path) -> None:
    with Sampler() as seen:
        doze()
    assert any(frame.name == "doze" for stack in seen for frame in stack)
    called: list[int] = []
    others = set(threading.enumerate())
    SampledWorker(str(tmp_path), called.append)(3)
    (writer,) = set(threading.enumerate()) - others
    end = time.monotonic() + 10
    while not worker_looks(tmp_path) and time.monotonic() < end:
        doze()
    assert called == [3]
    assert any(frame.name == "doze" for stack in worker_looks(tmp_path) for frame in stack)
    while tmp_path.exists():  # it may write once more while the folder is emptied
        shutil.rmtree(tmp_path, ignore_errors=True)
    writer.join(10)
    assert not writer.is_alive()


def test_without_nvml_or_a_driver_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(gpu, "import_module", absent)
    with GpuWatch() as watch:
        pass
    assert "nvidia-ml-py is not installed" in str(watch.activity())

    def start() -> None:
        raise RuntimeError("Driver Not Loaded")

    monkeypatch.setattr(gpu, "import_module", lambda _: SimpleNamespace(nvmlInit=start))
    with GpuWatch() as watch:
        pass
    assert "Driver Not Loaded" in str(watch.activity())


def test_what_nvml_tells_is_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(
        NVML_CLOCK_SM=1,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMaxClockInfo=lambda *_: 2000,
        nvmlDeviceGetClockInfo=lambda *_: 1000,
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(used=3, total=4),
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=40),
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: 0x4,
    )
    monkeypatch.setattr(gpu, "import_module", lambda _: told)
    monkeypatch.setattr(gpu, "_PAUSE_S", 0.01)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with GpuWatch() as watch:
        time.sleep(0.1)
    found = watch.activity()
    assert (found.used, found.memory, found.clock, found.power, found.heat) == (0.4, 0.75, 0.5, 1.0, 0.0)
    assert "held down by power 100%" in str(found)


def test_the_gpu_that_cuda_counts_is_the_one_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"a-{index}"))
    nvml = SimpleNamespace(nvmlDeviceGetHandleByUUID=lambda uuid: uuid)
    assert gpu._handle(nvml, 1) == "GPU-a-1"


def test_a_command_line_of_several_lines_is_one_process() -> None:
    raw = (
        'process 7:"python -c import sys\nmain(sys.argv); 1";thread (9): MainThread;f (a.py:3) 12\n'
        'process 7:"python -c import sys\nmain(sys.argv); 1";process 8:"python -c import sys\nmain(sys.argv); 1";'
        "thread (10): MainThread;g (b.py:5) 30\n"
    )
    found = parsed(raw, pid=7)
    assert dict(found.trainer) == {(Frame("a.py", 3, "f"),): 12}
    assert dict(found.workers) == {(Frame("b.py", 5, "g"),): 30}


@linux
def test_an_observer_that_takes_too_long_to_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it may not get a core for seconds: what is known by then is told."""
    with Watch() as seen:
        monkeypatch.setattr(watch, "_START", "import sys, time; time.sleep(60)")
        monkeypatch.setattr(watch, "_UNTIL_READY_S", 0.0)
        with Watch() as slow, slow.phase("load"):
            pass
    assert set(slow.phases()) <= {"load"}
    assert slow._process is not None
    assert slow._process.poll() is not None
    assert seen._process is not None
    assert seen._process.poll() is not None
