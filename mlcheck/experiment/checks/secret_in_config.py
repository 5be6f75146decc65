"""Finds keys and passwords that are written into a config, which whoever sees the experiment can read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.document import Entry, merged_entries
from mlcheck.experiment.field_rules import text
from mlcheck.experiment.seen import Experiment

_FIELDS = {"access_key", "secret_key", "password", "identitytoken", "registrytoken", "credential", "token", "auth"}
_VARIABLE = re.compile(r"^(?P<name>\w+)=(?P<value>.+)$", re.DOTALL)
_NAMED = re.compile(
    r"(?:^|_)(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY)(?:_ID|_KEY)?$", re.IGNORECASE
)
_LOOKS_LIKE = re.compile(
    r"\bAKIA[0-9A-Z]{16}\b|\bghp_\w{30,}|\bgithub_pat_\w{30,}|\bhf_[A-Za-z]{30,}|\bsk-[\w-]{30,}|AccountKey=[\w+/]{20,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
# What stands for a secret that somebody else fills in, and what is on the cluster already.
_PLACEHOLDER = re.compile(
    r"^[<\[$%{*]|\{\{|\$\{|^(?:your|my|the|some|example|change|replace|dummy|fake|test|todo|xxx|none|null|true|false)"
    r"|^(.)\1*$|^/|^minio(?:admin)?$",
    re.IGNORECASE,
)
_SHORTEST = 6


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    for mapping in document.mappings():
        for entry in merged_entries(mapping):
            if _is_secret(entry.key, entry.value):
                yield _told(experiment, entry.value, f"`{entry.key}`")
    section = document.find("environment", "environment_variables")
    for node in _variables(section):
        match = _VARIABLE.match(node.value)
        if match and _NAMED.search(match["name"]) and _is_written(match["value"]):
            yield _told(experiment, node, f"`{match['name']}`")


def _is_secret(key: str, node: yaml.Node) -> bool:
    value = text(node)
    if _LOOKS_LIKE.search(value):
        return not _VARIABLE.match(value) or not _NAMED.search(value.partition("=")[0])
    return (key in _FIELDS or bool(_NAMED.search(key))) and _is_written(value) and node.tag.endswith(":str")


def _is_written(value: str) -> bool:
    """Whether it is a secret itself: no place for one, and nothing to read as words."""
    value = value.strip("'\"")
    return len(value) >= _SHORTEST and " " not in value and not _PLACEHOLDER.search(value)


def _variables(section: Entry | None) -> Iterator[yaml.ScalarNode]:
    waiting = [section.value] if section else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            yield node
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        else:
            waiting += [entry.value for entry in merged_entries(node)]


def _told(experiment: Experiment, node: yaml.Node, name: str) -> Finding:
    return Finding(
        f"{name} holds a secret in plain text, which is stored and shown with the experiment",
        experiment.document.at(node),
        help="take it from the cluster's own configuration, a mounted file or a secret store, and replace it",
    )
