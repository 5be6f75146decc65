"""What several tests of the adapters need: files to load, programs, and a process left as it was found."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch

from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.script.adapter import build
from mlcheck.trial.script.program import Script
from mlcheck.trial.trial import Trial

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "probe"):
    sys.path.insert(0, str(folder))

from process_modes import modes_put_back  # noqa: E402 - beside the tests of probes
from processor_clock import by_the_processor  # noqa: E402

INSTALLED = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
"""Where the standard library and the packages lie."""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path) -> Iterator[None]:
    """What a program writes goes beside the folder of its test, and is gone with it.

    By a patch of its own: the test's, asked for here, would be undone after `untouched_process` has looked.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLCHECK_SCRATCH", str(tmp_path.parent / f"{tmp_path.name}-scratch"))
        yield


@pytest.fixture(autouse=True)
def untouched_process() -> Iterator[None]:
    """Loading an entry point changes the path, the modules, the seeds: undo it, and keep to one thread.

    What is installed stays imported: frameworks take seconds, and half of a library imported twice is another one.
    """
    path, modules = list(sys.path), dict(sys.modules)
    with modes_put_back(), by_the_processor():
        torch.set_num_threads(1)
        yield
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        file = getattr(sys.modules[name], "__file__", None) or ""
        if not (name.startswith("mlcheck") or file.startswith(INSTALLED)):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Write a file into the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Trial], Trial]]:
    """In the folder of the test: a trial given here is ended after the test."""
    monkeypatch.chdir(tmp_path)
    trials: list[Trial] = []

    def keep(trial: Trial) -> Trial:
        trials.append(trial)
        return trial

    yield keep
    for trial in reversed(trials):  # what was patched last is undone first
        if trial.progress:
            trial.progress.close()


@pytest.fixture
def load_script(driven: Callable[[Trial], Trial]) -> Callable[..., Trial]:
    """Make a trial of a script's text and its arguments."""

    def load(text: str, *arguments: str) -> Trial:
        Path("train.py").write_text(text, encoding="utf-8")
        return driven(build(Script(Path("train.py"), arguments), ("train.py", 1)))

    return load


@pytest.fixture
def load_determined(write: Callable[[str, str], Path]) -> Callable[..., Trial]:
    """A Determined trial `T` from the body of a class (or several), with an experiment config."""

    def load_source(source: str, config: str = "{}", **options: Any) -> Trial:
        from determined_programs import HEAD

        sys.modules.pop("model_def", None)
        write("model_def.py", HEAD + source)
        path = write("experiment.yaml", config)
        return load_trial("model_def:T", EntryOptions(config=path, device="cpu", **options))

    return load_source
