"""Packages that only a part of mlcheck needs, and that may be missing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from mlcheck.core.mistake import Mistake

PROBE_NEEDS = ("torch", "numpy", "PIL", "greenlet")
"""What the extra `probe` installs."""
_DISTRIBUTIONS = {"PIL": "pillow"}


def require(part: str, modules: Sequence[str]) -> None:
    """Raises Mistake, with the command that installs them, where modules that `part` imports are not there."""
    missing = [_DISTRIBUTIONS.get(name, name) for name in modules if find_spec(name) is None]
    if missing:
        raise Mistake(f"`mlcheck {part}` needs {', '.join(missing)}: pip install 'mlcheck[{part}]'")
