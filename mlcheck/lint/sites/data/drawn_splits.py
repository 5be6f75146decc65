"""Splits of data that are drawn at random, and which of several ranks draws them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.data.seeds import NUMPY, PYTHON, TORCH, seeds
from mlcheck.lint.sites.model import Call
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.ranks import runs_on_every_rank, starts

SKLEARN = "sklearn.model_selection.train_test_split"
RANDOM_SPLIT = "torch.utils.data.random_split"
ORDERS = {"numpy.random.permutation": NUMPY, "numpy.random.shuffle": NUMPY, "random.shuffle": PYTHON}
PARTS = ("Subset", "SubsetRandomSampler")


def drawn_by_each_rank(sites: Sites) -> Iterator[Call]:
    """The splits that all ranks of a distributed program draw, of a generator that nobody seeds."""
    if not sites.once(starts):
        return
    for call in sites.calls(RANDOM_SPLIT):
        if call.argument("generator", 2) is None and not seeds(sites, TORCH) and runs_on_every_rank(sites, call):
            yield call
    for call in sites.calls(SKLEARN):
        fixed = call.constant("shuffle", None, True) is False or call.argument("random_state") is not None
        if not fixed and not seeds(sites, NUMPY) and runs_on_every_rank(sites, call):
            yield call
    for call in orders_cut_in_two(sites):
        if not seeds(sites, ORDERS[call.name]) and runs_on_every_rank(sites, call):
            yield call


def orders_cut_in_two(sites: Sites) -> Iterator[Call]:
    """What puts samples in a random order of which two slices are taken, one up to where the other begins."""
    if any(True for _ in sites.mentioning(PARTS)):
        yield from filter(_is_cut_in_two, sites.calls(*ORDERS))


def _is_cut_in_two(call: Call) -> bool:
    """Whether the slices are for `Subset`s."""
    if call.function is None:
        return False
    names = [arg.id for arg in call.node.args if isinstance(arg, ast.Name)] if "shuffle" in call.name else []
    names += call.file.names_given(call.node)
    heads, tails = set(), set()
    for node in call.function.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and last_name(node.value) in names:
            low, high = node.slice.lower, node.slice.upper
            heads |= {ast.unparse(high)} if low is None and high is not None else set()
            tails |= {ast.unparse(low)} if high is None and low is not None else set()
    return bool(heads & tails) and any(word in call.file.text for word in PARTS)
