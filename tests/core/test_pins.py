"""Which packages a project pins, in every form it may be written down."""

from pathlib import Path

import pytest

from mlcheck.core.pins import normal, pins, same_version, written_pin

HASH = "0123456789abcdef" * 4
REQUIREMENTS = """\
torch==2.13.0
numpy>=2
Pandas == 3.1.1 ; python_version > '3.8'
rich==15.*
scipy~=1.17
lightning
# tqdm==1.0
-r other.txt
pillow==13.0.0  # why
six==1.17.0 \\
    --hash=sha256:00
requests[socks]==2.32.5
"""
PLACES = f"""\
one @ git+https://example.org/one@{HASH[:40]}
two @ git+https://example.org/two@main
three @ https://example.org/three.whl#sha256={HASH}
"""
CONDA = """\
name: x
dependencies:
  - python=3.11
  - numpy=2.4.6=py311
  - scipy>=1
  - pip:
    - torch==2.13.0
"""
CONDA_LOCK = """\
package:
- name: torch
  version: 2.13.0
  manager: pip
- name: numpy
  manager: conda
  version: 2.4.6
"""
PIXI = """\
- conda: https://example.org/linux-64/numpy-base-2.4.6-py311_0.conda
- pypi: https://example.org/torch-2.13.0-cp311-none-any.whl
"""
ALL_OF = {"torch": "2.13.0", "pandas": "3.1.1", "pillow": "13.0.0", "six": "1.17.0", "requests": "2.32.5"}
TORCH = {"torch": "2.13.0"}


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        ("requirements.txt", REQUIREMENTS, ALL_OF),
        ("requirements-dev.txt", PLACES, {"one": "", "three": ""}),
        ("requirements/base.txt", "torch===2.13.0+cpu\n", {"torch": "2.13.0+cpu"}),
        ("requirements.txt", "torch=2.13.0=pypi_0\nnumpy=2.4.6\n", TORCH),
        ("environment.yml", CONDA, {"python": "3.11", "numpy": "2.4.6", "torch": "2.13.0"}),
        ("pyproject.toml", '[project]\ndependencies = ["torch==2.13.0", "numpy>=2"]\n', TORCH),
        ("setup.py", "setup(install_requires=['torch==2.13.0', \"numpy\"])\n", TORCH),
        ("uv.lock", '[[package]]\nname = "torch"\nversion = "2.13.0"\n', TORCH),
        ("pylock.toml", '[[packages]]\nname = "torch"\nversion = "2.13.0"\n', TORCH),
        ("Pipfile.lock", '{"default": {"torch": {"version": "==2.13.0"}}}', TORCH),
        ("conda-lock.yml", CONDA_LOCK, {"torch": "2.13.0", "numpy": "2.4.6"}),
        ("pixi.lock", PIXI, {"numpy-base": "2.4.6", "torch": "2.13.0"}),
    ],
)
def test_what_is_pinned(file: str, text: str, found: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert {name: version for name, (version, _) in pins(tmp_path).items()} == found
    assert {where for _, where in pins(tmp_path).values()} == {file}


def test_a_lock_file_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.12.0\n")
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "torch"\nversion = "2.13.0"\n')
    assert pins(tmp_path) == {"torch": ("2.13.0", "uv.lock")}


@pytest.mark.parametrize("file", ["uv.lock", "Pipfile.lock", "requirements.txt", "environment.yml", "pixi.lock"])
@pytest.mark.parametrize("text", [b"\xff\xfe[[", b"[[[", b"{}", b"[]", b"package = 3", b'{"default": [1]}'])
def test_a_file_of_another_form_pins_nothing(file: str, text: bytes, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(text)
    assert pins(tmp_path) == {}


def test_names_and_versions_are_compared_as_indexes_do() -> None:
    assert normal("Scikit_Learn") == normal("scikit-learn") == "scikit-learn"
    assert same_version("2.13.0+cpu", "2.13.0")
    assert same_version("2.13", "2.13.0")
    assert not same_version("2.1", "2.10")


def test_the_pin_that_people_write_is_found_without_the_lock_file(tmp_path: Path) -> None:
    assert written_pin(tmp_path, "torch", "pytorch") == ""
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "torch"\nversion = "2.13.0"\n')
    (tmp_path / "setup.py").write_text('setup(install_requires=["numpy==2.0", "torch>=1.10"])\n')
    assert written_pin(tmp_path, "torch", "pytorch") == ""
    (tmp_path / "environment.yml").write_text("dependencies:\n  - pytorch=1.12.1=py3.10_cuda11.3\n")
    assert written_pin(tmp_path, "torch", "pytorch") == "1.12.1"
    (tmp_path / "requirements.txt").write_text("torch==1.13.0+cu117\n")
    assert written_pin(tmp_path, "torch", "pytorch") == "1.13.0+cu117"
