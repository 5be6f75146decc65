"""YAML 1.2 scalars, as Determined's client reads them: `1e-4` is a number, `yes` and `010` are not special."""

from __future__ import annotations

import re

import yaml


class CoreLoader(yaml.SafeLoader):
    """A SafeLoader with the number and boolean rules of YAML 1.2 (its core schema)."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML keeps its rules on the class; these start from none

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        text = str(self.construct_scalar(node)).replace("_", "")
        return int(text, 0 if text.lstrip("+-")[:2].lower() in {"0x", "0o"} else 10)


_NUMBER_STARTS = list("-+0123456789.")
CoreLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0x[0-9a-fA-F_]+|0o[0-7_]+|[0-9][0-9_]*)$"), _NUMBER_STARTS
)
CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|[0-9][0-9_]*[eE][-+]?[0-9]+)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    _NUMBER_STARTS,
)
CoreLoader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^(?:<<)$"), ["<"])
CoreLoader.add_constructor("tag:yaml.org,2002:int", CoreLoader.construct_integer)
