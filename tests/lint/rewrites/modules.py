"""A program of one file in several."""

from __future__ import annotations

import ast

from rewrites.names import bound, read
from rewrites.program import DEFINITIONS, IMPORTS, Files, text


def in_two_files(files: Files) -> Files | None:
    parted = _parted(files)
    if parted is None:
        return None
    names, library, main = parted
    return {"lib.py": library, "main.py": f"from lib import {names}\n{main}"}


def in_package(files: Files) -> Files | None:
    """The same behind the `__init__.py` of a package, which passes the names on."""
    parted = _parted(files)
    if parted is None:
        return None
    names, library, main = parted
    again = f"from .parts import {names}\n"
    return {"pack/__init__.py": again, "pack/parts.py": library, "main.py": f"from pack import {names}\n{main}"}


def _parted(files: Files) -> tuple[str, str, str] | None:
    """The names of the definitions that can stand in another file, that file, and the rest."""
    if len(files) != 1:
        return None
    body = ast.parse(*files.values()).body
    imports = [line for line in body if isinstance(line, IMPORTS)]
    defined = {line.name: line for line in body if isinstance(line, DEFINITIONS)}
    lines = [line for line in body if not isinstance(line, (*DEFINITIONS, *IMPORTS))]
    if not lines and defined:
        lines = [defined.popitem()[1]]
    own = {line.name for line in lines if isinstance(line, DEFINITIONS)} | bound(lines)
    if not defined or own & read(defined.values()):
        return None
    return ", ".join(sorted(defined)), text([*imports, *defined.values()]), text([*imports, *lines])
