"""Which functions can matter to a rule: judged by the words in their text, long before anything is interpreted."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cached_property

from mlcheck.lint.program import Definition, FunctionInfo, ModuleInfo, Program, walk_definitions

_LOSS = (
    r"cross_entropy|CrossEntropyLoss|nll_loss|NLLLoss|BCEWithLogits|binary_cross_entropy_with_logits"
    r"|sigmoid_focal_loss|SoftMarginLoss|soft_margin_loss"
)
# A function is a place to start when it does one of these itself.
_DEED = re.compile(
    rf"backward\(|\.eval\(\)|\.train\(|^\s*torch\.(?:no_grad|inference_mode)\(\)\s*$|{_LOSS}", re.MULTILINE
)
_INFERENCE = re.compile(r"no_grad|inference_mode|set_grad_enabled|load_state_dict")
_LOSS_HELD = re.compile(_LOSS)
_LOSS_USED = re.compile(r"loss|criterion|objective", re.IGNORECASE)
# A function is worth following when what it does or returns can be of a kind the rules know.
_WORTH = re.compile(
    rf"{_DEED.pattern}|\.step\(|grad|nn\.|optim|oss\b|softmax|sigmoid|criteri|model|\bnet\b|oader|logits|yield|\bF\.|forward",
    re.MULTILINE,
)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_DEFINED = re.compile(r"\b(?:def|class)\s+\w+\s*\(")
_SHORT = 6
_MAX_NAMESAKES = 3


def called_names(text: str) -> frozenset[str]:
    """The names a text calls, without those it only defines."""
    return frozenset(_CALLED.findall(_DEFINED.sub("", text)))


class Relevance:
    """What matters in one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._losers: set[str] = set()

    @cached_property
    def active(self) -> frozenset[str]:
        """Names of functions and classes that do a deed, directly or through calls by name.

        A name that many functions share says nothing about which of them is called.
        """
        defined: Counter[str] = Counter()
        callers: dict[str, set[str]] = {}
        found: set[str] = set()
        for module in self._program.modules.values():
            for node, owner in walk_definitions(module.source.tree.body):
                name = owner.name if owner is not None and node.name == "__init__" else node.name
                defined[name] += not isinstance(node, ast.ClassDef)
                if isinstance(node, ast.ClassDef):
                    continue
                text = module.text_of(node)
                if _DEED.search(text):
                    found.add(name)
                if name != node.name and _LOSS_HELD.search(text):
                    self._losers.add(name)
                for called in called_names(text):
                    callers.setdefault(called, set()).add(name)
        found = {name for name in found if defined[name] <= _MAX_NAMESAKES}
        todo = list(found)
        while todo:
            for name in callers.get(todo.pop(), ()):
                if name not in found and defined[name] <= _MAX_NAMESAKES:
                    found.add(name)
                    todo.append(name)
        return frozenset(found)

    @cached_property
    def called(self) -> frozenset[str]:
        """All names any file calls."""
        return frozenset().union(*(called_names(module.source.text) for module in self._program.modules.values()))

    def to_read(self, module: ModuleInfo) -> bool:
        """Whether anything in the file can be a place to start."""
        text = module.source.text
        if _DEED.search(text) or _INFERENCE.search(text):
            return True
        return not self.active.isdisjoint(called_names(text))

    def to_start(self, module: ModuleInfo, node: Definition, owner: ast.ClassDef | None) -> bool:
        """Whether the function is a place to start, if nothing in the project calls it."""
        text = module.text_of(node)
        if _DEED.search(text) or not self.active.isdisjoint(called_names(text)):
            return True
        return owner is not None and owner.name in self._losers and _LOSS_USED.search(text) is not None

    def to_follow(self, info: FunctionInfo) -> bool:
        """Whether a call of it is worth following; if not, it changes nothing and its result is unknown."""
        if info.worth is None:
            node = info.node
            short = isinstance(node, ast.Lambda) or (node.end_lineno or 0) - node.lineno < _SHORT
            info.worth = short or self._worth(info.module.text_of(node))
        return info.worth

    def _worth(self, text: str) -> bool:
        return _WORTH.search(text) is not None or not self.active.isdisjoint(called_names(text))


def is_test(module: ModuleInfo) -> bool:
    """A test file: its short experiments are about the code, not about training."""
    path = module.source.path.replace("\\", "/")
    name = path.rpartition("/")[2]
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    text = module.source.text
    return (named or "/tests/" in path or path.startswith("tests/")) and (
        "pytest" in text or "unittest" in text or "def test_" in text
    )
