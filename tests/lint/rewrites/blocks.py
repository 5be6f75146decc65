"""Code in another block: tried, in a context, under a decorator, out of a generator."""

from __future__ import annotations

import ast

from rewrites.program import below_imports, functions, inner_loops, of_each_file, statements

_TIMER = """\
import time
from contextlib import contextmanager


@contextmanager
def timer(name):
    began = time.perf_counter()
    try:
        yield
    finally:
        print(name, time.perf_counter() - began)
"""
_TIMED = """\
import functools
import time


def timed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        began = time.perf_counter()
        result = function(*args, **kwargs)
        print(time.perf_counter() - began)
        return result

    return wrapper
"""
_BATCHES = """\
def batches(loader):
    for batch in loader:
        yield batch
"""


@of_each_file
def in_tries(tree: ast.Module) -> bool:
    loops = list(inner_loops(tree))
    for loop in loops:
        (tried,) = statements("try:\n    pass\nexcept RuntimeError:\n    print('failed')\n    raise")
        assert isinstance(tried, ast.Try)
        tried.body, loop.body = loop.body, [tried]
    return bool(loops)


@of_each_file
def in_contexts(tree: ast.Module) -> bool:
    loops = list(inner_loops(tree))
    for loop in loops:
        (entered,) = statements("with timer('turn'):\n    pass")
        assert isinstance(entered, ast.With)
        entered.body, loop.body = loop.body, [entered]
    if loops:
        below_imports(tree, _TIMER)
    return bool(loops)


@of_each_file
def timed(tree: ast.Module) -> bool:
    found = functions(tree)
    for function in found:
        function.decorator_list = [ast.Name("timed", ast.Load())]
    if found:
        below_imports(tree, _TIMED)
    return bool(found)


@of_each_file
def as_batches(tree: ast.Module) -> bool:
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For) and _is_over_loader(node.iter)]
    for loop in loops:
        loop.iter = ast.Call(ast.Name("batches", ast.Load()), [loop.iter], [])
    if loops:
        below_imports(tree, _BATCHES)
    return bool(loops)


def _is_over_loader(over: ast.expr) -> bool:
    return isinstance(over, ast.Name | ast.Attribute) and ast.unparse(over).endswith("loader")
