"""What is built holds every page and works without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from mlcheck.core.catalog import rules_folder

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path.relative_to(rules_folder()).as_posix() for path in rules_folder().rglob("*.md")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this checkout and the wheel built from that sdist, not from the checkout."""
    folder = tmp_path_factory.mktemp("built")
    hatchling("-t", "sdist", "-d", str(folder), cwd=ROOT)
    sdist = next(folder.glob("*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    hatchling("-t", "wheel", "-d", str(folder), cwd=next((folder / "source").iterdir()))
    return folder


def hatchling(*arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def names_in_wheel(built: Path) -> set[str]:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        return set(wheel.namelist())


@pytest.mark.slow
def test_the_sdist_holds_what_a_packager_needs(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"rules/{page}" for page in PAGES} <= names
    assert {"pyproject.toml", "README.md", "Makefile", ".licenses/Apache-2.0.txt", "tests/test_packaging.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith("mlcheck-report.html")]


@pytest.mark.slow
def test_the_wheel_holds_every_page_once_and_all_package_data(built: Path) -> None:
    names = names_in_wheel(built)
    shipped = {name.removeprefix("mlcheck/_rules/") for name in names if name.startswith("mlcheck/_rules/")}
    assert PAGES
    assert shipped == PAGES
    package = ROOT / "mlcheck"
    data = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.relative_to(ROOT).as_posix() for path in data} <= names
    assert not [name for name in names if name.startswith(("tests/", "examples/", "rules/"))]


@pytest.mark.slow
def test_the_base_install_has_no_torch(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert sorted(line.split()[1].split(">")[0] for line in required) == ["jinja2", "pyyaml", "rich"]
    assert "License-Expression: Apache-2.0" in metadata


@pytest.mark.slow
def test_the_installed_wheel_lints_and_explains_with_nothing_beside_it(built: Path, tmp_path: Path) -> None:
    """No dependency at all is there: reading code needs the standard library only."""
    venv.create(tmp_path / "venv", with_pip=False)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    site = next((tmp_path / "venv").rglob("site-packages"))
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    python = shutil.which("python", path=str(binaries))
    assert python
    (tmp_path / "loop.py").write_text(
        "import torch\n\n\n"
        "def train(model, loader, optimizer, criterion):\n"
        "    for inputs, labels in loader:\n"
        "        loss = criterion(model(inputs), labels)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n",
        encoding="utf-8",
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [python, "-I", "-m", "mlcheck", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    found = run("lint", "loop.py")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "missing-zero-grad" in found.stdout
    explained = run("explain", "missing-zero-grad")
    assert explained.returncode == 0, explained.stderr
    assert "missing-zero-grad" in explained.stdout
