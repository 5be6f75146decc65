"""Scripts that are part of a package and run by their dotted names, as `python -m package.train` would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from probe_programs import ask
from script_programs import HEAD, SOUND

from mlcheck.cli import main
from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.importing import folder_that_holds
from mlcheck.trial.trial import EntryError, Trial

Write = Callable[[str, str], Path]
Load = Callable[[str], Trial]

ARGUMENTS = EntryOptions(arguments=("--epochs", "2"))
NETWORK = """\
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 5)
    def forward(self, x):
        return self.head(x)
"""
TRAIN = (
    "from .network import Net\n"
    + HEAD[: HEAD.index("class Net")]
    + HEAD[HEAD.index("parser =") :]
    + SOUND[len(HEAD) :]
    + "    assert (__package__, __spec__.name) == ('package', __spec__.name)\n"
)


@pytest.fixture
def load(driven: Callable[[Trial], Trial]) -> Load:
    return lambda entry: driven(load_trial(entry, ARGUMENTS))


@pytest.fixture
def package(write: Write) -> Write:
    write("package/__init__.py", "")
    write("package/network.py", NETWORK)
    write("package/train.py", TRAIN)
    return write


@pytest.mark.usefixtures("package")
def test_a_module_with_relative_imports_is_a_program(load: Load) -> None:
    trial = load("package.train")
    assert (trial.name, trial.entry) == ("package.train", ("package/train.py", 1))
    assert trial.source is not None
    assert trial.source.is_program
    for rule in ("missing-zero-grad", "missing-eval-mode", "run-not-repeatable"):
        assert ask(rule, trial).outcome is Outcome.PASS


def test_a_fault_in_a_module_is_told_where_it_is(package: Write, load: Load) -> None:
    package("package/train.py", TRAIN.replace("        optimizer.zero_grad()\n", ""))
    verdict = ask("missing-zero-grad", load("package.train"))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.findings[0].location.path == "package/train.py"


def test_a_package_is_run_by_its_main(package: Write, load: Load) -> None:
    package("package/__main__.py", TRAIN)
    assert load("package").entry == ("package/__main__.py", 1)


def test_a_folder_without_init_is_a_package_too(write: Write, load: Load) -> None:
    write("deep/network.py", NETWORK)
    write("deep/train.py", TRAIN.replace("from .network", "from deep.network").replace("'package'", "'deep'"))
    assert load("deep.train").entry == ("deep/train.py", 1)


@pytest.mark.filterwarnings("ignore:can't resolve package:ImportWarning")
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("package/train.py", r"package/train.py uses relative imports, .*: name it `package\.train`$"),
        ("package", r"there is no module `package\.__main__`"),
        (
            "package.nothing",
            r"there is no module `package\.nothing` in .*: write `module:Name`, .* or `package\.train`",
        ),
        ("package..train", "there is no module `package.`"),
        ("nothing", "there is no module `nothing`"),
        ("math", "`math`"),
    ],
)
def test_what_cannot_be_run_is_told_in_a_sentence(entry: str, told: str) -> None:
    with pytest.raises(EntryError, match=told):
        load_trial(entry, ARGUMENTS)


@pytest.mark.filterwarnings("ignore:can't resolve package:ImportWarning")
@pytest.mark.usefixtures("package")
def test_within_the_package_the_folder_above_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path / "package")
    with pytest.raises(EntryError, match=rf"name it `package\.train`, from {tmp_path}$"):
        load_trial("train.py", ARGUMENTS)


@pytest.mark.usefixtures("package")
def test_where_an_absent_module_lies() -> None:
    assert folder_that_holds("network", "package/train.py:build") == Path("package")
    assert folder_that_holds("package", "package/deep/train.py") == Path()
    assert folder_that_holds("package.network", "package/deep/train.py") == Path()
    assert folder_that_holds("elsewhere", "package/train.py") is None
    assert folder_that_holds("package.absent", "package/deep/train.py") is None
    assert folder_that_holds("package", "package.train") is None
    inside, above = Path("package/deep").resolve(), Path.cwd()
    assert folder_that_holds("package", str(inside / "train.py")) == above
    assert folder_that_holds("package.absent", str(inside / "train.py")) is None
    assert folder_that_holds("network", str(inside / "train.py")) is None


def test_the_report_says_that_a_module_lies_beside_the_one_that_imports_it(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write("package/network.py", NETWORK)
    write("package/parts.py", "from network import *\n")
    write("train.py", TRAIN.replace("from .network", "from package.parts"))
    assert main(["probe", "train.py", "--only", "missing-zero-grad"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "network.py lies beside parts.py: `from .network import ...` finds it" in told


def test_the_report_says_from_where_to_start(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("code/package/network.py", NETWORK)
    write("code/package/train.py", TRAIN.replace("from .network", "from package.network"))
    assert main(["probe", "code/package/train.py", "--only", "missing-zero-grad"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "ModuleNotFoundError: No module named 'package'" in told
    assert "its code is in code: start mlcheck there, or here with PYTHONPATH=code" in told
