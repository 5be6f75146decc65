"""Finds paths of the host in code and config whose folder has another name inside of the container."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding, Location
from mlcheck.experiment.document import Document, merged_entries
from mlcheck.experiment.seen import Experiment

# Folders that every image has of its own: what is written there is the container's.
_OF_EVERY_IMAGE = {"tmp", "var", "usr", "etc", "dev", "proc", "sys", "run", "root", "opt", "bin", "lib"}


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    mounts = list(_mounts(document))
    inside = [container for _, container in mounts]
    for host, container in mounts:
        parts = host.strip("/").split("/")
        if len(parts) < 2 or parts[0] in _OF_EVERY_IMAGE or _below(host, inside):
            continue
        for place, path in [*_in_config(document), *_in_code(experiment)]:
            if _below(path, [host]) and not _below(path, inside):
                there = container.rstrip("/") + path[len(host) :]
                told = f"`{path}` is a path of the host: in the container that folder is `{container}`"
                yield Finding(told, place, help=f"write `{there}`")


def _mounts(document: Document) -> Iterator[tuple[str, str]]:
    section = document.find("bind_mounts")
    for item in section.value.value if section and isinstance(section.value, yaml.SequenceNode) else ():
        paths = {entry.key: entry.value for entry in merged_entries(item)}
        host, container = paths.get("host_path"), paths.get("container_path")
        if isinstance(host, yaml.ScalarNode) and isinstance(container, yaml.ScalarNode):
            if container.value.startswith("/"):
                yield host.value.rstrip("/"), container.value


def _below(path: str, folders: list[str]) -> bool:
    return any(f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _in_config(document: Document) -> Iterator[tuple[Location, str]]:
    """The texts under `hyperparameters` and `data`, which only the trial reads."""
    waiting = [entry.value for name in ("hyperparameters", "data") if (entry := document.find(name))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            yield document.at(node), node.value
        else:
            waiting += [p for part in node.value for p in (part if isinstance(part, tuple) else (part,))]


def _in_code(experiment: Experiment) -> Iterator[tuple[Location, str]]:
    for module in experiment.code.modules if experiment.code else ():
        said = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                end = node.end_lineno or node.lineno
                yield Location(module.path, node.lineno, node.col_offset + 1, end), node.value
