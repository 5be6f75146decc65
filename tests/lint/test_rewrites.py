"""A finding does not hang on how a program is put together: what does the same is told the same."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import pytest
from rewrites import REWRITES
from rewrites.blocks import in_contexts, in_tries
from rewrites.program import Files, Rewrite

from mlcheck.core.outcome import Severity
from mlcheck.lint.engine import analyse
from mlcheck.lint.files.source import Source, parse
from tests.pages import RULES

CATALOG = {rule.name: rule for rule in RULES}
SAME = """
backward-in-autocast clip-before-unscale discriminator-not-detached freeze-overwritten loss-args-swapped
nll-without-log-softmax plateau-wrong-way scheduler-before-optimizer sigmoid-before-bcelogits softmax-before-ce
softmax-twice step-without-backward target-copies-itself train-not-restored zero-grad-before-step
"""
SOUND = "accumulation-not-averaged divided-by-last-index graph-kept-across-steps running-sum-not-reset scaler-bypassed"
OF_EACH = 2
"""So many programs of a page are rewritten."""
IN_BLOCKS = "divided-by-last-index running-sum-not-reset"


def programs(rules: str, kind: str) -> Iterator[tuple[str, Files]]:
    for name in rules.split():
        examples = [example for example in CATALOG[name].examples if example.kind == kind]
        for example in examples[:OF_EACH]:
            yield name, {path: ast.unparse(ast.parse(code)) + "\n" for path, code in example.files.items()}


@functools.cache
def told_of_page(*files: tuple[str, str]) -> set[str]:
    return told(dict(files))


def told(files: Files) -> set[str]:
    """The rules that have something to say, notes left out."""
    sources = []
    for path, code in files.items():
        source = parse(path, code.encode(), path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
        assert isinstance(source, Source)
        sources.append(source)
    found = {answer[0] for answer in analyse(sources) if isinstance(answer, tuple) and isinstance(answer[0], str)}
    return {name for name in found if CATALOG[name].severity is not Severity.NOTE}


def check(rewrite: Rewrite, rules: str, kind: str) -> int:
    """How many programs of the pages there were to rewrite; each is told the same as before."""
    seen = 0
    for name, files in programs(rules, kind):
        again = rewrite(files)
        if again is not None:
            print(name, *again.values(), sep="\n")
            assert told(again) == told_of_page(*files.items())
            seen += 1
    return seen


@pytest.mark.parametrize("rewrite", [pytest.param(rewrite, id=name) for name, rewrite in REWRITES.items()])
def test_rewritten_program_is_told_the_same(rewrite: Rewrite) -> None:
    assert check(rewrite, SAME, "bad") + check(rewrite, SAME + SOUND, "good") > 0


@pytest.mark.parametrize("rewrite", [in_tries, in_contexts])
def test_sums_are_followed_into_blocks(rewrite: Rewrite) -> None:
    assert check(rewrite, IN_BLOCKS, "bad") > 0
