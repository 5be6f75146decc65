"""Layers that no module holds, and that somebody trains or moves one by one."""

import re

from mlcheck.lint.sites.project import Sites

_TAKES = r"\.(?:parameters|named_parameters|state_dict|train|eval|load_state_dict)\("


def is_handled(sites: Sites, name: str) -> bool:
    """Whether somebody trains or moves the contents by hand: `for layer in net.layers: layer.parameters()`."""
    loop = re.compile(rf"for\b[^\n]*?(\w+)\)? in [^\n]*\.{re.escape(name)}\b")
    for file in sites.mentioning([name], tests=True):
        if re.search(rf"\.{re.escape(name)}\b[^\n]*{_TAKES}", file.text):
            return True
        if any(re.search(rf"\b{found}{_TAKES}", file.text) for found in set(loop.findall(file.text))):
            return True
    return False
