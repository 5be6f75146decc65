"""Programs of several files that import, derive from, decorate and call each other in circles, made by chance."""

from __future__ import annotations

from random import Random

from mlcheck.lint.files.source import Source, Unreadable, parse

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
FILES = {
    "pkg": "pkg/__init__.py",
    "pkg.a": "pkg/a.py",
    "pkg.b": "pkg/b.py",
    "pkg.sub": "pkg/sub/__init__.py",
    "pkg.sub.a": "pkg/sub/a.py",
    "a": "a.py",
    "train": "train.py",
}
NAMES = ("Net", "Base", "fit", "make", "model", "loader", "optimizer", "loss", "pkg", "sub", "a", "b")
IMPORTS = (
    "from {module} import *",
    "from {module} import *",
    "import {module}",
    "import {module} as {one}",
    "from {module} import {one}",
    "from {module} import {one} as {two}",
    "from . import {one}",
    "from . import *",
    "from .{leaf} import *",
    "from .{leaf} import {one}, {two}",
    "from .. import {one}",
    "from ..{leaf} import *",
    "try:\n    from {module} import {one}\nexcept ImportError:\n    from .{leaf} import {one}",
    "def __getattr__(name):\n    from . import {one}\n    return getattr({one}, name)",
    "__all__ = ['{one}', *{two}.__all__]",
)
DEFINITIONS = (
    (
        "class {one}({two}):\n    def __init__(self):\n        super().__init__()\n        self.{three} = {two}()\n"
        "        self.layer = nn.Linear(2, 2)\n    def forward(self, x):\n"
        "        return self.{three}(torch.softmax(self.layer(x), 1))"
    ),
    "class {one}({two}.{three}, {three}):\n    {two} = {one}\n    def fit(self, x):\n        return self.{two}.fit(x)",
    "class {one}(nn.Module):\n    @{one}.{two}\n    def forward(self, x):\n        return {one}()(x)",
    "@{one}\n@{two}.{one}\ndef {one}(x=None, *args, **kwargs):\n    return {two}({one}(x), *args, **kwargs)",
    "@{one}\nclass {one}({one}):\n    pass",
    "{one} = {two}",
    "{one} = {two}.{three}",
    "{one}.{two} = {three}",
    "{one} = [{one}, {two}, *{one}]",
    "{one} = {{'k': {two}}}['k']({three})",
    "{one} = {two}({three})",
    "{one} = DataLoader({two}, batch_size=1, shuffle={three})",
    "{one} = torch.optim.SGD({two}.parameters(), lr={three})",
    "{one} = nn.Sequential({two}, nn.Softmax(dim=1), *{one})",
    (
        "def {one}({two}, {three}={one}):\n    from {module} import {three}\n    global {two}\n"
        "    {two} = {three}({one})\n    return {two}"
    ),
    (
        "def {one}({two}, loader, optimizer):\n    for x, y in loader:\n        optimizer.zero_grad()\n"
        "        F.cross_entropy({two}({three}(x)), y).backward()\n        optimizer.step()"
    ),
    "def {one}():\n    yield from {two}()\n    yield {one}",
    "with {one}() as {two}:\n    {two}({three}).backward()",
    "for {one}, {two} in {three}:\n    {two}({one}).backward()\n    {three}.step()",
    "if __name__ == '__main__':\n    {one}({two}, {three}, {one})",
)


def circle(chance: Random) -> list[Source | Unreadable]:
    """The parsed files of one such program."""
    return [parse(path, _text(chance).encode(), module) for module, path in FILES.items()]


def _text(chance: Random) -> str:
    parts = [_filled(chance, IMPORTS) for _ in range(chance.randint(1, 4))]
    parts += [_filled(chance, DEFINITIONS) for _ in range(chance.randint(1, 6))]
    if chance.random() < 0.3:  # the order of a real file is no law
        chance.shuffle(parts)
    return HEAD + "\n".join(parts) + "\n"


def _filled(chance: Random, forms: tuple[str, ...]) -> str:
    one, two, three = chance.choices(NAMES, k=3)
    module = chance.choice(list(FILES))
    leaf = module.rpartition(".")[2]
    return chance.choice(forms).format(one=one, two=two, three=three, module=module, leaf=leaf)
