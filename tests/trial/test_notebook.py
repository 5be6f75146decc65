"""Notebooks that train: run whole, in their own folder, and what is found in them told by cell and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from probe_programs import ask
from script_programs import SOUND, broken

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.place import raised_at
from mlcheck.trial.find import load_trial
from mlcheck.trial.traceback import user_traceback
from mlcheck.trial.trial import EntryError, Trial

Driven = Callable[[Trial], Trial]
FIRST = """\
%matplotlib inline
!nvidia-smi
from pathlib import Path
files = !ls
assert get_ipython() is None
width = int(Path("width.txt").read_text())"""
ENTRY = "work/train.ipynb"


def written(*cells: str) -> None:
    """A notebook in a folder of its own, with a file beside it."""
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)} for cell in cells]
    Path("work").mkdir(exist_ok=True)
    Path("work/width.txt").write_text("8")
    Path(ENTRY).write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4}, indent=1))


def in_cells(script: str) -> tuple[str, ...]:
    """The script's definitions and its run in cells of their own, as one writes them."""
    definitions, _, run = script.partition("\nif __name__")
    return (
        FIRST,
        definitions.replace("torch.randn(96, 8)", "torch.randn(96, width)"),
        f"if __name__{run}",
        "display(model)",
    )


@pytest.fixture
def load_notebook(driven: Driven) -> Callable[..., Trial]:
    def load(*cells: str) -> Trial:
        written(*cells)
        return driven(load_trial(ENTRY))

    return load


def test_a_sound_notebook_is_seen_whole(load_notebook: Callable[..., Trial]) -> None:
    trial = load_notebook(*in_cells(SOUND))
    assert list(trial.models) == ["model"]
    assert trial.evaluate_step is not None
    for rule in ("missing-zero-grad", "missing-eval-mode", "train-not-restored", "parameter-never-changes"):
        assert ask(rule, trial).outcome is Outcome.PASS
    assert not Path("work/model.pt").exists()


def test_a_fault_is_told_by_its_cell(load_notebook: Callable[..., Trial]) -> None:
    verdict = ask("missing-zero-grad", load_notebook(*in_cells(broken("missing-zero-grad"))))
    assert verdict.outcome is Outcome.FAIL
    place = verdict.findings[0].location
    assert place.path == ENTRY
    assert place.symbol.startswith("cell 2, line ")
    lines = Path(ENTRY).read_text().splitlines()
    assert "loss.backward()" in lines[place.line - 1] or "optimizer.step()" in lines[place.line - 1]


@pytest.mark.usefixtures("driven")
def test_its_own_error_is_shown_with_the_line_of_its_code() -> None:
    written("import torch", "def ratio(x):\n    return x / 0", "ratio(1)")
    with pytest.raises(ZeroDivisionError) as caught:
        load_trial(ENTRY)
    told = user_traceback(caught.value)
    assert "    return x / 0\n" in told
    assert raised_at(caught.value).symbol == "cell 2, line 2"


def test_cells_that_are_no_python_are_named(load_notebook: Callable[..., Trial]) -> None:
    first, *rest = in_cells(SOUND)
    trial = load_notebook(first, "pip install torch", "%%bash\nls", *rest, "a b c")
    assert "train.ipynb: no Python, and left out: cells 2, 7" in trial.notices


@pytest.mark.parametrize(
    ("entry", "content", "told"),
    [
        (ENTRY, "x = 1", "work/train.ipynb cannot be read as a notebook: it is no JSON"),
        (ENTRY, '{"cells": [], "nbformat": 4}', "work/train.ipynb has no cell with code of Python's"),
        (f"{ENTRY}:build", "x = 1", "a notebook is run whole, from its first cell to its last: name it alone"),
        ("work/trian.ipynb", "x = 1", "there is no file work/trian.ipynb; did you mean `work/train.ipynb`"),
    ],
)
@pytest.mark.usefixtures("driven")
def test_what_cannot_be_run_is_told_in_a_sentence(entry: str, content: str, told: str) -> None:
    written()
    Path(ENTRY).write_text(content)
    with pytest.raises(EntryError, match=told):
        load_trial(entry)
