"""Frameworks that place samplers and guards themselves, and how far their say goes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.project import Sites

_OWNERS: tuple[str, ...] = (
    "lightning",
    "pytorch_lightning",
    "accelerate",
    "deepspeed",
    "ignite",
    "determined",
    "horovod",
    "composer",
)
_OWNERS += ("ray", "catalyst", "fastai", "mmcv", "mmengine", "fairseq", "megatron", "colossalai")
_IMPORTED = pattern(rf"^[ \t]*(?:from|import)\s+(?:{'|'.join(_OWNERS)})\b", re.MULTILINE)
_TRAINER = pattern(r"\bTrainer\(\s*model=")


def owned(sites: Sites) -> bool:
    """Whether a framework that places samplers and guards itself has a hand in the program; `sites.once(owned)`."""
    if any(_IMPORTED.search(file.text) for file in sites.mentioning(_OWNERS, tests=True)):
        return True
    return any(_TRAINER.search(file.text) for file in sites.mentioning(["Trainer("], tests=True))


def owned_around(file: File) -> bool:
    """Whether such a framework has a hand in this file, those that it imports, or those that import it, near or far.

    What else there is in a repository may be run by one, and says nothing of the loop that is written out here.
    """
    return file.sites.once(owned) and file.sites.once_of(_owned_around, file)


def _owned_around(file: File) -> bool:
    files = {each.path: each for each in file.sites.files.values()}
    imported = {path: each.imports for path, each in files.items()}
    importing: dict[str, set[str]] = {}
    for path, names in imported.items():
        for name in names:
            importing.setdefault(name, set()).add(path)
    near = _reached(file.path, imported) | _reached(file.path, importing)
    return any(_IMPORTED.search(files[path].text) or _TRAINER.search(files[path].text) for path in near)


def _reached(path: str, links: Mapping[str, Iterable[str]]) -> set[str]:
    found, ahead = {path}, [path]
    while ahead:
        new = set(links.get(ahead.pop(), ())) - found
        found |= new
        ahead += new
    return found
