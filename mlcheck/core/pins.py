"""Which packages a project pins to one version: in lock files, requirements, environment.yml or its own metadata.

Files are read as text; a line of another form pins nothing.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_EXACT = re.compile(rf"({_NAME})\s*(?:\[[^\]]*\])?\s*\(?===?\s*([0-9][^\s,;#*\\)]*)(?=\s*(?:[;#\\)]|--|$))")
_PLACE = re.compile(rf"({_NAME})\s*(?:\[[^\]]*\])?\s*@\s*\S+(?:@[0-9a-f]{{40}}|#sha256=[0-9a-f]{{64}})")
_EXPORTED = re.compile(rf"({_NAME})=([0-9][^\s=]*)=\S+$")  # as `conda list --export` writes it
_CONDA = re.compile(rf"-\s+({_NAME})={{1,2}}([0-9][^\s=,*]*)")
_QUOTED = re.compile(r"""["']([^"'\n]+)["']""")
_TOO_LARGE = 32 << 20


def pins(folder: Path) -> dict[str, tuple[str, str]]:
    """Package, in its normal form, to (version, file) as the files of `folder` pin it; lock files have the last word.

    The version is empty where a place, as a commit, is pinned.
    """
    found: dict[str, tuple[str, str]] = {}
    for pattern, read in _READERS:
        for path in sorted(folder.glob(pattern)):
            for name, version in _safely(read, path):
                found[normal(name)] = (version, path.relative_to(folder).as_posix())
    return found


def written_pin(folder: Path, *names: str) -> str:
    """The version that the requirements which people write pin a package of these names to; empty for none.

    Lock files are left out: they take longer to read than a file to lint.
    """
    found = ""
    for pattern, read in _WRITTEN:
        for path in sorted(folder.glob(pattern)):
            found = next((version for name, version in _safely(read, path) if normal(name) in names), "") or found
    return found


def normal(name: str) -> str:
    """A package's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def same_version(one: str, other: str) -> bool:
    """Whether two versions are the same but for a build (`2.13.0+cpu`) and zeros at the end."""
    return _release(one) == _release(other)


def _release(version: str) -> str:
    return re.sub(r"(\.0)+$", "", version.partition("+")[0])


Pairs = Iterator[tuple[str, str]]


def _safely(read: Callable[[str], Pairs], path: Path) -> list[tuple[str, str]]:
    try:
        return (
            list(read(path.read_text(encoding="utf-8", errors="replace"))) if path.stat().st_size < _TOO_LARGE else []
        )
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return []  # not of the form that its name promises


def _of_requirements(text: str) -> Pairs:
    for line in text.splitlines():
        if exact := _EXACT.match(line.strip()) or _EXPORTED.match(line.strip()):
            yield exact[1], exact[2]
        elif place := _PLACE.match(line.strip()):
            yield place[1], ""


def _of_quoted(text: str) -> Pairs:
    """`"torch==2.13.0"` wherever it is quoted: pyproject.toml and setup.py write their requirements so."""
    for requirement in _QUOTED.findall(text):
        yield from _of_requirements(requirement)


def _of_conda(text: str) -> Pairs:
    for line in text.splitlines():
        if match := _CONDA.match(line.strip()):
            yield match[1], match[2]
        else:
            yield from _of_requirements(line.strip().removeprefix("-").strip())


def _of_toml_lock(text: str) -> Pairs:
    """uv, poetry and pdm write `[[package]]`, the standard pylock.toml `[[packages]]`."""
    data = tomllib.loads(text)
    for package in (*data.get("package", ()), *data.get("packages", ())):
        yield package["name"], str(package.get("version", ""))


def _of_pipfile_lock(text: str) -> Pairs:
    data = json.loads(text)
    for part in ("default", "develop"):
        for name, entry in data.get(part, {}).items():
            yield name, str(entry.get("version", "")).removeprefix("==")


def _of_yaml_lock(text: str) -> Pairs:
    """conda-lock's `name: torch` with its `version: 2.13.0`, and pixi's `conda: .../torch-2.13.0-build.conda`."""
    yield from re.findall(
        rf"^-?\s*name: ({_NAME})\s+(?:manager: \w+\s+)?version: ['\"]?([^\s'\"]+)", text, re.MULTILINE
    )
    yield from re.findall(rf"conda: \S+/({_NAME})-([0-9][^\s-]*)-[^\s-]+\.(?:conda|tar\.bz2)", text)
    yield from re.findall(rf"pypi: \S+/({_NAME}?)-([0-9][^\s-]*)-\S+\.whl", text)


_WRITTEN: tuple[tuple[str, Callable[[str], Pairs]], ...] = (
    ("setup.py", _of_quoted),
    ("setup.cfg", _of_requirements),
    ("pyproject.toml", _of_quoted),
    ("environment*.y*ml", _of_conda),
    ("requirements/*.txt", _of_requirements),
    ("requirements*.txt", _of_requirements),
    ("constraints*.txt", _of_requirements),
)
_READERS = (
    *_WRITTEN,
    ("Pipfile.lock", _of_pipfile_lock),
    ("conda-lock.y*ml", _of_yaml_lock),
    ("pixi.lock", _of_yaml_lock),
    ("poetry.lock", _of_toml_lock),
    ("pdm.lock", _of_toml_lock),
    ("uv.lock", _of_toml_lock),
    ("pylock*.toml", _of_toml_lock),
)
