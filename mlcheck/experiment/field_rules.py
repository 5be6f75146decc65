"""What the values of an experiment config must be to one another."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

import yaml

from mlcheck.experiment.document import is_null, merged_entries
from mlcheck.experiment.shape import NUMBER, Problem, Rule, is_filled_in, joined, kinds, number

Values = Mapping[str, yaml.Node]
_LENGTH_UNITS = ("batches", "records", "epochs")
_COUNTED = ("int", "double", "log")


def text(node: yaml.Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def ordered(low: str, high: str, *, equal: bool) -> Rule:
    """`low` is less than `high`, or the same where `equal` allows it."""

    def check(values: Values, _: yaml.Node, path: str) -> Iterator[Problem]:
        first, last = values.get(low), values.get(high)
        if not isinstance(first, yaml.ScalarNode) or not isinstance(last, yaml.ScalarNode):
            return
        if NUMBER not in kinds(first) or NUMBER not in kinds(last):
            return
        if number(first) > number(last) or (number(first) == number(last) and not equal):
            must = f"`{low}` must be {'at most' if equal else 'less than'} `{high}`"
            told = f"{must}, and {first.value} is not" if equal else f"{must}: {first.value} and {last.value}"
            yield Problem(first, joined(path, low), told, "exchange them, or correct the one that is wrong")

    return check


def not_both(one: str, other: str) -> Rule:
    def check(values: Values, _: yaml.Node, path: str) -> Iterator[Problem]:
        if one in values and other in values:
            yield Problem(values[one], joined(path, one), f"`{one}` and `{other}` are both set", "keep one of them")

    return check


def both_or_none(one: str, other: str) -> Rule:
    def check(values: Values, _: yaml.Node, path: str) -> Iterator[Problem]:
        if (one in values) != (other in values):
            given, missing = (one, other) if one in values else (other, one)
            told = f"`{given}` is set without `{missing}`, which the cluster refuses"
            yield Problem(values[given], joined(path, given), told, f"add `{missing}`, or take `{given}` out")

    return check


def one_unit(values: Values, node: yaml.Node, path: str) -> Iterator[Problem]:
    given = [entry.key for entry in merged_entries(node)]
    if len(given) == 1 and given[0] in values:
        return
    if not any(name not in _LENGTH_UNITS for name in given):
        told = f"`{path}` must have exactly one of `batches`, `records` and `epochs`"
        yield Problem(node, path, told, "keep the one that is meant")


def storage_inside_host(values: Values, _: yaml.Node, path: str) -> Iterator[Problem]:
    host, storage = text(values.get("host_path")), text(values.get("storage_path"))
    if not host or not storage or is_filled_in(values["host_path"]) or is_filled_in(values["storage_path"]):
        return
    whole = posixpath.normpath(posixpath.join(host, storage))
    if not f"{whole}/".startswith(f"{posixpath.normpath(host).rstrip('/')}/"):
        told = f"`storage_path` {storage} is not inside of `host_path` {host}"
        yield Problem(values["storage_path"], joined(path, "storage_path"), told, "write a folder below `host_path`")


def mounted_once(values: Values, _: yaml.Node, path: str) -> Iterator[Problem]:
    """Two folders cannot be mounted to the same place."""
    mounts = values.get("bind_mounts")
    seen: set[str] = set()
    for place, mount in enumerate(mounts.value if isinstance(mounts, yaml.SequenceNode) else ()):
        inside = next((e.value for e in merged_entries(mount) if e.key == "container_path"), None)
        name = posixpath.normpath(text(inside)) if text(inside) else ""
        if inside is not None and name in seen and not is_filled_in(inside):
            told = f"`{text(inside)}` is mounted twice"
            yield Problem(inside, joined(path, f"bind_mounts[{place}]"), told, "mount each folder to its own place")
        seen.add(name)


def names_or_pattern(_: Values, node: yaml.Node, path: str) -> Iterator[Problem]:
    given = {entry.key for entry in merged_entries(node)}
    if "name" not in given and not {"pattern", "action"} <= given:
        yield Problem(node, path, f"`{path}` has no `name`", "name the policy, and give it a pattern")


def grid_has_counts(values: Values, _: yaml.Node, path: str) -> Iterator[Problem]:
    searcher, parameters = values.get("searcher"), values.get("hyperparameters")
    entries = merged_entries(searcher) if searcher else []
    if parameters is not None and any(e.key == "name" and text(e.value) == "grid" for e in entries):
        yield from uncounted(parameters, joined(path, "hyperparameters"))


def uncounted(node: yaml.Node, path: str) -> Iterator[Problem]:
    """Ranges that a grid cannot divide: there is no `count`."""
    if isinstance(node, yaml.SequenceNode):
        for place, item in enumerate(node.value):
            yield from uncounted(item, f"{path}[{place}]")
    entries = {entry.key: entry.value for entry in merged_entries(node)}
    kind = text(entries.get("type"))
    if kind in _COUNTED and ("count" not in entries or is_null(entries["count"])):
        told = f"`{path}` has no `count`: a grid cannot tell how many values of the range to take"
        yield Problem(node, path, told, "add `count`, or write the values as `type: categorical`")
    elif "type" not in entries:
        for name, value in entries.items():
            yield from uncounted(value, joined(path, name))


_NOT_OF_A_POD = {"name", "name_space"}
_NOT_OF_THE_CONTAINER = {
    *("image", "command", "args", "working_dir", "ports", "liveness_probe", "readiness_probe", "startup_probe"),
    *("lifecycle", "termination_message_path", "termination_message_policy", "image_pull_policy", "security_context"),
}


def pod_is_left_alone(values: Values, _: yaml.Node, path: str) -> Iterator[Problem]:
    """The cluster names the pod itself, and fills in most of its own container."""
    for name in sorted(_NOT_OF_A_POD & values.keys()):
        yield Problem(values[name], joined(path, name), f"`{name}` of a pod cannot be set", "take it out")
    spec = {entry.key: entry.value for entry in merged_entries(values["spec"])} if "spec" in values else {}
    containers = spec.get("containers")
    for container in containers.value if isinstance(containers, yaml.SequenceNode) else ():
        given = {entry.key: entry.value for entry in merged_entries(container)}
        if text(given.get("name")) == "determined-container":
            for name in sorted(_NOT_OF_THE_CONTAINER & given.keys()):
                told = f"`{name}` of the container `determined-container` cannot be set in a pod's spec"
                yield Problem(given[name], joined(path, f"spec.containers.{name}"), told, "set it in the config")
