"""Finds values that YAML 1.2 reads as a text though they look like a number, nothing, true or false."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.ranges import parameters
from mlcheck.experiment.seen import Experiment

_MEANT = {"None": "null", "none": "null", "nil": "null"}
_MEANT |= dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON"), "true")
_MEANT |= dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF"), "false")
_NUMBER = re.compile(r"\s*[-+]?([0-9][0-9_]*([.,][0-9]*)?|[.,][0-9]+)([eE][-+]?[0-9]+)?\s*")
_NO_POINT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")


def check(experiment: Experiment) -> Iterator[Finding]:
    """Only with the code at hand: one that compares with such a text means it."""
    code = experiment.code
    if code is None:
        return
    words, computed = code.words(), experiment.computed_with()
    for parameter in parameters(experiment.document):
        for node in parameter.choices():
            if parameter.path in computed and _is_number_as_text(node):
                yield Finding(
                    f"`{parameter.path}` is the text `{node.value}`, and the trial computes with it",
                    experiment.document.at(node),
                    help=f"write `{node.value.strip().replace(',', '.')}`, a number",
                )
                continue
            meant = _MEANT.get(node.value) if _is_plain_text(node) else None
            if meant and node.value not in words and node.value.lower() not in words:
                yield Finding(
                    f"`{parameter.path}` is the text `{node.value}`, which is neither {meant} nor false to Python",
                    experiment.document.at(node),
                    help=f"write `{meant}`, or put it in quotes where the text is meant",
                )
    converted = code.loads_with_pyyaml(os.path.basename(experiment.document.path))
    if converted is not None:
        yield from _for_pyyaml(experiment, converted)


def _for_pyyaml(experiment: Experiment, converted: set[str]) -> Iterator[Finding]:
    """PyYAML keeps to YAML 1.1, for which a number has a point before its exponent."""
    for parameter in parameters(experiment.document):
        for node in parameter.choices() if parameter.path.split(".")[-1] not in converted else ():
            if isinstance(node, yaml.ScalarNode) and node.style is None and _NO_POINT.fullmatch(node.value):
                mantissa, exponent = node.value.lower().split("e")
                pointed = f"{mantissa}.0e{exponent if exponent[0] in '+-' else f'+{exponent}'}"
                yield Finding(
                    f"`{parameter.path}` is a number to the cluster, and the text `{node.value}` to PyYAML, "
                    "with which the code reads this file",
                    experiment.document.at(node),
                    help=f"write `{pointed}`",
                )


def _is_number_as_text(node: yaml.Node) -> bool:
    is_text = isinstance(node, yaml.ScalarNode) and node.tag.endswith(":str")
    return is_text and _NUMBER.fullmatch(node.value) is not None


def _is_plain_text(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.tag.endswith(":str")
