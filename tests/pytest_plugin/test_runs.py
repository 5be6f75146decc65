"""One report for all processes of a session; and none of mlcheck loaded where nobody asks for it."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mlcheck.core.report import Report
from mlcheck.pytest_plugin.runs import Runs


def test_what_one_makes_the_others_read(tmp_path: Path) -> None:
    made: list[int] = []
    both_ask = threading.Barrier(4)

    def make() -> Report:
        made.append(1)
        return Report("lint", "src", ())

    def ask() -> None:
        runs = Runs(str(tmp_path))
        both_ask.wait()
        read.append(runs._once("what", make, 60.0))

    read: list[Report] = []
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert read == [Report("lint", "src", ())] * 4
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_who_fails_leaves_it_to_the_next(tmp_path: Path) -> None:
    def fail() -> Report:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Runs(str(tmp_path))._once("what", fail, 60.0)
    assert Runs(str(tmp_path))._once("what", lambda: Report("lint", "a", ()), 60.0).subject == "a"


def test_who_died_is_not_waited_for_without_end(tmp_path: Path) -> None:
    import hashlib

    Path(tmp_path, hashlib.sha256(b"what").hexdigest()[:24] + ".lock").touch()
    assert Runs(str(tmp_path))._once("what", lambda: Report("lint", "own", ()), 0.0).subject == "own"


def test_a_folder_that_is_shared_goes_with_the_session() -> None:
    runs = Runs("")
    folder = Path(runs.share())
    assert folder.is_dir()
    runs.close()
    assert not folder.exists()


def test_a_suite_that_does_not_use_it_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import sys\n"
        "def test_one():\n"
        "    ours = {name for name in sys.modules if name.startswith('mlcheck')}\n"
        "    assert ours == {'mlcheck', 'mlcheck.pytest_plugin'}, ours\n"
        "    assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
