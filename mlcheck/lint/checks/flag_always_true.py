"""flag-always-true: a switch of the command line that no word switches off."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call

LOOKS_AT = "command-line option"
WORDS = ("add_argument",)
_ARGPARSE = pattern(r"(?m)^\s*(?:import argparse\b|from argparse import\b)")
_OTHER_READERS = ("jsonargparse", "simple_parsing")
"""These read the words `true` and `false` where a type is `bool`."""


def check(facts: Facts) -> Iterator[Finding]:
    files = [file for file in facts.sites.mentioning(["add_argument"]) if _ARGPARSE.search(file.text)]
    if not any("torch" in file.text for file in facts.sites.files.values()):
        return
    for file in files:
        if any(other in file.text for other in _OTHER_READERS):
            continue
        calls = file.calls("add_argument")
        facts.sites.seen[LOOKS_AT] = facts.sites.seen.get(LOOKS_AT, 0) + len(calls)
        for call in calls:
            if _stays_on(call):
                name = _names(call)[0]
                yield Finding(
                    f"`{name}` cannot be switched off: `bool` of any non-empty string is true, even of `False`",
                    call.place.location,
                    help="write `action=argparse.BooleanOptionalAction` in place of `type=bool`",
                )


def _stays_on(call: Call) -> bool:
    """`add_argument("--amp", type=bool, default=True)`: true when it is left out, and true with whatever is given."""
    given = {keyword.arg: keyword.value for keyword in call.node.keywords}
    if not _names(call) or None in given or not given.keys().isdisjoint(("action", "nargs", "const", "choices")):
        return False
    if call.constant("default") is not True:
        return False
    return call.file.resolve(given.get("type"), call.context) == "builtins.bool"


def _names(call: Call) -> list[str]:
    """`-s` and `--shuffle`."""
    given = [arg.value for arg in call.node.args if isinstance(arg, ast.Constant)]
    return [name for name in given if isinstance(name, str) and name.startswith("-")]
