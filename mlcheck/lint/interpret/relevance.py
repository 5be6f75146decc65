"""Which functions can matter to a rule: judged by what they call, before anything is interpreted."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from mlcheck.core.patterns import pattern
from mlcheck.lint.interpret.callers import Callers
from mlcheck.lint.interpret.sketches import EVALUATING, TRAINING, Sketch, is_loss_name, sketches
from mlcheck.lint.nodes import last_name
from mlcheck.lint.program import Definition, FunctionInfo, ModuleInfo, Program

if TYPE_CHECKING:
    from mlcheck.lint.sites.project import Sites

# Methods that frameworks call by name.
_HOOKS = frozenset(["training_step", "validation_step", "test_step", "predict_step", "train_batch", "evaluate_batch"])
_RIVALS = pattern(r"^(?:import|from) (?:mxnet|tensorflow|paddle|jax|mindspore)\b", re.MULTILINE)
_COMPARES = pattern(r"\btesting\.assert_\w+\(")
_MAX_NAMESAKES = 3
_SHORT = 6
_MOST_STARTS = 8


class Relevance:
    """What matters in one program."""

    def __init__(self, program: Program, sites: Sites) -> None:
        self._program, self._sites = program, sites
        self.callers = Callers(program, sites)
        self._worth: dict[ast.AST, bool] = {}
        self._started = [0] * _MOST_STARTS  # the seeds that a start led to once or more, twice or more, ...

    @cached_property
    def _sketches(self) -> dict[ast.AST, Sketch]:
        """What each function and method does itself, nested functions included."""
        found: dict[ast.AST, Sketch] = {}
        for file in self._sites.files.values():
            if "torch" in file.text or not _RIVALS.search(file.text):
                found.update(sketches(file, self._defined))
        for sketch in found.values() if "training_step" in self._defined else ():
            if "fit" in sketch.calls:
                sketch.calls.add("training_step")  # as Lightning's trainer does
        return found

    @cached_property
    def _defined(self) -> frozenset[str]:
        """The names of all functions, methods and classes."""
        return frozenset(each.node.name for file in self._sites.files.values() for each in file.walk.defined)

    @cached_property
    def _by_name(self) -> dict[str, list[Sketch]]:
        """Functions by the names they are called by: a constructor goes by the name of its class.

        What is written for type checkers alone is none of them.
        """
        found: dict[str, list[Sketch]] = {}
        for sketch in self._sketches.values():
            if "overload" not in map(last_name, sketch.node.decorator_list):
                found.setdefault(sketch.name, []).append(sketch)
        return found

    @cached_property
    def _seeds(self) -> frozenset[ast.AST]:
        """Functions in which a rule finds something to judge: training, a loss, or the evaluation of a model."""
        return frozenset(node for node, sketch in self._sketches.items() if sketch.judged or sketch.name in _HOOKS)

    @cached_property
    def active(self) -> frozenset[str]:
        """Names of functions and classes that reach a seed through calls by name.

        A name that many functions share says nothing about which of them is called.
        """
        callers: dict[str, set[str]] = {}
        shared = {name for name, those in self._by_name.items() if len(those) > _MAX_NAMESAKES}
        for sketch in self._sketches.values():
            if sketch.name not in shared:
                for callee in sketch.calls:
                    callers.setdefault(callee, set()).add(sketch.name)
        found = {self._sketches[node].name for node in self._seeds} - shared
        todo = list(found)
        while todo:
            more = callers.get(todo.pop(), set()) - found
            found |= more
            todo.extend(more)
        return frozenset(found)

    @cached_property
    def called(self) -> frozenset[str]:
        """All names of functions that are called somewhere."""
        names = Counter(name for file in self._sites.files.values() for name in file.walk.calls)
        return frozenset(names) | self._program.called_elsewhere

    def to_read(self, module: ModuleInfo) -> bool:
        """Whether anything in the file can be a place to start."""
        if not self._sites.uses_torch:
            return False
        walk = self._sites.files[self._program.name_of(module)].walk
        names = walk.calls.keys()
        if "fit" in names and "training_step" in self.active:
            return True
        if not names.isdisjoint(TRAINING) or not names.isdisjoint(EVALUATING) or not names.isdisjoint(self.active):
            return True
        return any(is_loss_name(name) for name in names) or any(
            not isinstance(defined.node, ast.ClassDef) and defined.node in self._seeds for defined in walk.defined
        )

    def registers(self, module: ModuleInfo) -> bool:
        """Whether importing the file puts classes or functions of it on a list: `@register("focal")`."""
        if not self._sites.uses_torch or "register" not in module.source.text.lower():
            return False
        return any(
            "register" in ast.unparse(decorator).lower()
            for node in module.source.tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            for decorator in node.decorator_list
        )

    def to_start(self, node: Definition) -> bool:
        """Whether the function is a place to start, if nothing in the project calls it.

        Of many that lead to the same places, the first few will do.
        """
        sketch = self._sketches.get(node)
        if sketch is None or not (node in self._seeds or not sketch.calls.isdisjoint(self.active)):
            return False
        reached = self._bits.get(node, 0)
        for name in sketch.calls & self.active:
            reached |= self._reach[name]
        few = reached & ~self._started[-1] != 0
        for times, started in enumerate(self._started):
            self._started[times], reached = started | reached, started & reached
        return few

    @cached_property
    def _bits(self) -> dict[ast.AST, int]:
        """A bit for each seed: sets of them are numbers."""
        return {node: 1 << place for place, node in enumerate(self._seeds)}

    @cached_property
    def _reach(self) -> dict[str, int]:
        """The seeds that a call by each active name leads to."""
        reach = dict.fromkeys(self.active, 0)
        callers: dict[str, set[str]] = {}
        for sketch in self._sketches.values():
            if sketch.name in reach:
                reach[sketch.name] |= self._bits.get(sketch.node, 0)
                for name in sketch.calls & self.active:
                    callers.setdefault(name, set()).add(sketch.name)
        todo = list(reach)
        while todo:
            name = todo.pop()
            for caller in callers.get(name, ()):
                if reach[name] & ~reach[caller]:
                    reach[caller] |= reach[name]
                    todo.append(caller)
        return reach

    def is_judged(self, node: ast.AST) -> bool:
        """Whether a rule may have something to say in this function."""
        return node in self._seeds

    def is_quiet(self, info: FunctionInfo) -> bool:
        """Whether a method only uses layers: it neither leads to something that a rule judges nor calls `self`."""
        sketch = self._sketches.get(info.node)
        return sketch is not None and "self" not in sketch.calls and not self.promises(info)

    def promises(self, info: FunctionInfo) -> bool:
        """Whether a call of it may lead to something that a rule judges."""
        sketch = self._sketches.get(info.node)
        return sketch is None or info.node in self._seeds or not sketch.calls.isdisjoint(self.active)

    def cuts(self, info: FunctionInfo) -> bool:
        """Whether the function may cut a graph: what it is given is not what it returns."""
        sketch = self._sketches.get(info.node)
        return sketch is not None and not sketch.calls.isdisjoint(("detach", "detach_"))

    def to_follow(self, info: FunctionInfo) -> bool:
        """Whether a call of it may do or return something of a kind the rules know, whatever it is given."""
        node = info.node
        if isinstance(node, ast.Lambda) or info.generator or (node.end_lineno or 0) - node.lineno < _SHORT:
            return True
        if node not in self._worth:
            self._judge(node)
        return self._worth[node]

    def _judge(self, node: ast.AST) -> None:
        """Search what the function reaches. Where nothing is found, none of what was searched is worth it either."""
        first = self._sketches.get(node)
        if first is None:
            self._worth[node] = True
            return
        seen, todo = {node}, [first]
        while todo:
            sketch = todo.pop()
            if sketch.telling or not sketch.calls.isdisjoint(self._made) or self._worth.get(sketch.node):
                self._worth[node] = True
                return
            for name in sketch.calls:
                those = self._by_name.get(name, [])
                if len(those) > _MAX_NAMESAKES:
                    those = [other for other in those if other.owner is not None and other.owner is sketch.owner]
                for other in those:
                    if other.node not in seen and self._worth.get(other.node) is not False:
                        seen.add(other.node)
                        todo.append(other)
        self._worth.update(dict.fromkeys(seen, False))

    @cached_property
    def _made(self) -> frozenset[str]:
        """Names of the project's modules, optimizers and losses: who makes one is worth following."""
        bases: dict[str, set[str]] = {}
        for file in self._sites.files.values():
            for defined in file.walk.defined:
                if isinstance(defined.node, ast.ClassDef):
                    bases.setdefault(defined.node.name, set()).update(map(last_name, defined.node.bases))
        found = {name for name, above in bases.items() if any(_is_known(base) for base in above)}
        while True:
            more = {name for name, above in bases.items() if not found.isdisjoint(above)} - found
            if not more:
                return frozenset(found)
            found |= more


def _is_known(base: str) -> bool:
    return base.endswith(("Module", "Sequential", "ModuleList", "ModuleDict", "Optimizer")) or is_loss_name(base)


def is_test(module: ModuleInfo) -> bool:
    """A test file: its short experiments are about the code, not about training."""
    path = module.source.path.replace("\\", "/")
    name = path.rpartition("/")[2]
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    text = module.source.text
    if "(unittest.TestCase)" in text:
        return True
    return (named or "/tests/" in path or path.startswith("tests/")) and (
        "pytest" in text or "unittest" in text or "def test_" in text or _COMPARES.search(text) is not None
    )
