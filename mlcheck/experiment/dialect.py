"""Which version of Determined a config is written for: 0.24, whose searchers have a length, or 0.38."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from mlcheck.experiment.document import Document, is_null
from mlcheck.experiment.searchers import RETIRED, SEARCHERS
from mlcheck.experiment.shape import Problem

OLD, NEW = "0.24", "0.38"
_IMAGE_VERSION = re.compile(r"[-:]v?(\d+)\.(\d+)\.\d+(?:-[\w.]+)?$")
_OF_DETERMINED = re.compile(r"determined|-gpu-|-cpu-|:cuda-|:py-|:rocm-")
_MAX_TIME = ("time_metric", "max_time")


def dialect(document: Document, given: str) -> str:
    """`given`, else what the image's tag or a key that only one version has tells; empty where nothing does."""
    if given:
        return given
    image = document.find("environment", "image")
    tags = _texts(image.value) if image else []
    for tag in tags:
        version = _IMAGE_VERSION.search(tag)
        if version and _OF_DETERMINED.search(tag):
            return OLD if (int(version[1]), int(version[2])) < (0, 38) else NEW
    return NEW if any(document.find("searcher", name) for name in _MAX_TIME) else ""


def _texts(node: yaml.Node) -> list[str]:
    if isinstance(node, yaml.MappingNode):
        return [text for _, value in node.value for text in _texts(value)]
    return [node.value] if isinstance(node, yaml.ScalarNode) else []


def searcher_problems(document: Document, version: str) -> Iterator[Problem]:
    """What a searcher must have, and how long it runs: until 0.37 by its `max_length`, since 0.38 ASHA by `max_time`
    in units of `time_metric`.
    """
    searcher, name = document.find("searcher"), document.text("searcher", "name")
    if searcher is None or document.merges(searcher.value) or document.merges(document.root) or not name:
        return
    if name in RETIRED and (name != "custom" or version == NEW):
        named = document.find("searcher", "name")
        assert named is not None
        told = f"the searcher `{name}` is of an earlier version, and new experiments with it are refused"
        yield Problem(named.value, "searcher.name", told, "use adaptive_asha")
        return
    for key in SEARCHERS[name].wants if name in SEARCHERS else ():
        entry = document.find("searcher", key)
        if entry is None or is_null(entry.value):
            yield Problem(searcher.key_node, "searcher", f"`searcher` has no `{key}`", f"add `{key}`")
    timed = [key for key in _MAX_TIME if document.find("searcher", key)]
    long = document.find("searcher", "max_length")
    if version == OLD:
        for key in timed:
            entry = document.find("searcher", key)
            assert entry is not None
            told = f"`{key}` is no key of a searcher before 0.38"
            yield Problem(entry.key_node, f"searcher.{key}", told, "write `max_length: {batches: ...}`")
        if long is None and name in {"single", "random", "grid", "adaptive_asha", "async_halving"}:
            told = "`searcher` has no `max_length`, which Determined requires before 0.38"
            yield Problem(searcher.key_node, "searcher", told, "add `max_length: {epochs: ...}` or `{batches: ...}`")
    elif name == "adaptive_asha" and (version == NEW or timed or long is None) and len(timed) < len(_MAX_TIME):
        missing = next(key for key in _MAX_TIME if key not in timed)
        told = f"`searcher` has no `{missing}`, without which 0.38 refuses adaptive_asha"
        yield Problem(searcher.key_node, "searcher", told, "add `max_time`, counted in units of `time_metric`")
