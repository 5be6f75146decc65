"""Which functions can matter to a rule: judged by the words in their text, long before anything is interpreted."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cached_property

from mlcheck.lint.program import Definition, FunctionInfo, ModuleInfo, Program, walk_definitions

_LOSSES = (
    "cross_entropy",
    "CrossEntropyLoss",
    "nll_loss",
    "NLLLoss",
    "BCEWithLogits",
    "sigmoid_focal_loss",
    "SoftMarginLoss",
    "soft_margin_loss",
    "BCELoss",
    "KLDivLoss",
    "kl_div",
    "MSELoss",
    "mse_loss",
    "L1Loss",
    "l1_loss",
)
# A function is a place to start when it does one of these itself.
_DEEDS = ("backward(", ".eval()", ".train(", *_LOSSES)
_INFERENCE = ("no_grad", "inference_mode", "set_grad_enabled", "load_state_dict")
_IDLE = re.compile(r"^\s*torch\.(?:no_grad|inference_mode)\(\)\s*$", re.MULTILINE)
_LOSS_USED = ("loss", "criterion", "objective")
# A function is worth following when what it does or returns can be of a kind the rules know.
_WORTH: tuple[str, ...] = (
    *_DEEDS,
    *_INFERENCE,
    "state_dict()",
    ".step(",
    "zero_grad",
    ".grad",
    "clip_grad",
    "unscale_",
)
_WORTH += ("enable_grad", "requires_grad", "softmax", "sigmoid", "nn.", "optim.", "DataLoader", "F.", "Loss", "loss(")
_WORTH += ("loss_fn", "criteri", "logits", "odel(", "net(", "forward(", ".train", "yield", "super().")
_WORTH += ("state_dict()",)
_CALLED = re.compile(r"\w+(?=\()")
_DEF = re.compile(r"\bdef (\w+)")
_BASES = re.compile(r"^\s*class (\w+)\(([^)]*)\)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_CRITERION = re.compile(r"(\w+) *= *(?:\w+\.)*\w*Loss\(")
_SHORT = 6
_MAX_NAMESAKES = 3


def called_names(text: str) -> frozenset[str]:
    """The names a text calls, or defines."""
    return frozenset(_CALLED.findall(text))


def mentions(text: str, words: tuple[str, ...]) -> bool:
    """Whether any of the words stands in the text. A search word by word is much faster than one pattern."""
    return any(word in text for word in words)


def _does(text: str) -> bool:
    return mentions(text, _DEEDS) or ("torch." in text and _IDLE.search(text) is not None)


class Relevance:
    """What matters in one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._called: dict[str, frozenset[str]] = {}
        self._named: dict[str, frozenset[str]] = {}

    @cached_property
    def active(self) -> frozenset[str]:
        """Names of functions and classes that do a deed, directly or through calls by name.

        A name that many functions share says nothing about which of them is called.
        """
        found: set[str] = set()
        for module in self._program.modules.values():
            if not mentions(module.source.text, _DEEDS):
                continue
            for name, text in self._functions(module):
                if _does(text):
                    found.add(name)
        return frozenset(self._closure({name for name in found if self._namesakes[name] <= _MAX_NAMESAKES}))

    def _closure(self, found: set[str]) -> set[str]:
        """The names, and those of all functions that call them in turn."""
        fresh = set(found)
        while fresh:
            reached = set()
            for module in self._program.modules.values():
                if self._called_in(module).isdisjoint(fresh):
                    continue
                for name, text in self._functions(module):
                    if name not in found and self._namesakes[name] <= _MAX_NAMESAKES:
                        if not fresh.isdisjoint(called_names(text)):
                            reached.add(name)
            fresh = reached - found
            found |= fresh
        return found

    @cached_property
    def _namesakes(self) -> Counter[str]:
        """How many functions and methods share a name."""
        counts: Counter[str] = Counter()
        for module in self._program.modules.values():
            counts.update(_DEF.findall(module.source.text))
        return counts

    def _functions(self, module: ModuleInfo) -> list[tuple[str, str]]:
        """Name and text of each function; a constructor goes by the name of its class."""
        return [
            (owner.name if owner is not None and node.name == "__init__" else node.name, module.text_of(node))
            for node, owner in walk_definitions(module.source.tree.body)
            if not isinstance(node, ast.ClassDef)
        ]

    def _called_in(self, module: ModuleInfo) -> frozenset[str]:
        if module.name not in self._called:
            self._called[module.name] = called_names(module.source.text)
        return self._called[module.name]

    @cached_property
    def called(self) -> frozenset[str]:
        """All names that are called somewhere, and not only defined."""
        calls: Counter[str] = Counter()
        for module in self._program.modules.values():
            calls.update(_CALLED.findall(module.source.text))
        defined = self._namesakes
        here = frozenset(name for name, count in calls.items() if count > defined[name])
        return here | self._program.called_elsewhere

    def to_read(self, module: ModuleInfo) -> bool:
        """Whether anything in the file can be a place to start."""
        text = module.source.text
        if mentions(text, _DEEDS) or mentions(text, _INFERENCE):
            return True
        return bool(self.active) and not self.active.isdisjoint(self._called_in(module))

    def to_start(self, module: ModuleInfo, node: Definition, owner: ast.ClassDef | None) -> bool:
        """Whether the function is a place to start, if nothing in the project calls it."""
        text = module.text_of(node)
        if _does(text) or not self.active.isdisjoint(called_names(text)):
            return True
        if mentions(module.source.text, _LOSSES) and (owner is None or mentions(module.text_of(owner), _LOSSES)):
            return mentions(text.lower(), _LOSS_USED) or not self._criteria(module).isdisjoint(_CALLED.findall(text))
        return False

    def _criteria(self, module: ModuleInfo) -> frozenset[str]:
        """The names that a file gives to losses: `divergence` in `self.divergence = nn.KLDivLoss()`."""
        if module.name not in self._named:
            self._named[module.name] = frozenset(_CRITERION.findall(module.source.text))
        return self._named[module.name]

    def to_follow(self, info: FunctionInfo) -> bool:
        """Whether a call of it is worth following; if not, it changes nothing and its result is unknown."""
        if info.worth is None:
            node = info.node
            short = isinstance(node, ast.Lambda) or (node.end_lineno or 0) - node.lineno < _SHORT
            info.worth = short or self._worth(info.module.text_of(node))
        return info.worth

    def _worth(self, text: str) -> bool:
        if mentions(text, _WORTH):
            return True
        called = called_names(text)
        return not (self.active.isdisjoint(called) and self._module_classes.isdisjoint(called))

    @cached_property
    def _module_classes(self) -> frozenset[str]:
        """Names of the project's modules and optimizers: who makes one is worth following."""
        bases: dict[str, str] = {}
        for module in self._program.modules.values():
            bases.update(_BASES.findall(module.source.text))
        found = {name for name, given in bases.items() if mentions(given, ("Module", "Sequential", "Optimizer"))}
        while True:
            more = {name for name, given in bases.items() if not found.isdisjoint(_WORD.findall(given))} - found
            if not more:
                return frozenset(found)
            found |= more


def is_test(module: ModuleInfo) -> bool:
    """A test file: its short experiments are about the code, not about training."""
    path = module.source.path.replace("\\", "/")
    name = path.rpartition("/")[2]
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    text = module.source.text
    return (named or "/tests/" in path or path.startswith("tests/")) and (
        "pytest" in text or "unittest" in text or "def test_" in text
    )
