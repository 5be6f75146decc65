"""Odd programs come to an end, without a crash."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from circles import circle
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcheck.lint.engine import Crash, analyse
from mlcheck.lint.files.source import Source, parse

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def crashes(files: dict[str, str]) -> list[str]:
    sources = [parse(f"{name}.py", code.encode(), name) for name, code in files.items()]
    assert all(isinstance(source, Source) for source in sources), sources
    return [answer.traceback for answer in analyse(sources) if isinstance(answer, Crash)]


def test_modules_that_import_everything_from_one_another() -> None:
    one = HEAD + "from two import *\nx = missing\nloss = F.mse_loss(a, b)\nloss.backward()\n"
    two = HEAD + "from one import *\nfrom three import *\ny = absent\n"
    three = HEAD + "from two import *\nfrom one import *\nz = other\nloss.backward()\n"
    assert crashes({"one": one, "two": two, "three": three}) == []


def test_a_package_that_takes_everything_from_a_file_that_imports_the_package() -> None:
    """`pkg.thing` is looked for in `pkg.a`, which has it from `pkg`; it is the submodule."""
    files = {
        "pkg/__init__": "from .a import *\n",
        "pkg/a": "import torch\nfrom . import thing\n",
        "pkg/thing": "import torch\ndef scale(x):\n    return torch.softmax(x, 1)\n",
        "train": HEAD
        + (
            "from pkg import thing\n"
            "def train(model, loader, optimizer):\n"
            "    for x, y in loader:\n"
            "        optimizer.zero_grad()\n"
            "        F.cross_entropy(thing.scale(model(x)), y).backward()\n"
            "        optimizer.step()\n"
        ),
    }
    sources = [
        parse(f"{path}.py", code.encode(), path.removesuffix("/__init__").replace("/", "."))
        for path, code in files.items()
    ]
    answers = list(analyse([source for source in sources if isinstance(source, Source)]))
    found = [(answer[0], answer[1].location.line) for answer in answers if isinstance(answer, tuple)]
    assert ("softmax-before-ce", 3) in found


def test_a_softmax_of_which_no_dimension_is_known() -> None:
    code = HEAD + (
        "class Attention(nn.Module):\n"
        "    def __init__(self, dim):\n"
        "        super().__init__()\n"
        "        self.score = nn.Sequential(nn.Linear(dim, 4), nn.Linear(4, 1))\n"
        "    def forward(self, x):\n"
        "        return torch.softmax(self.score(x).squeeze(-1), dim=-1)\n"
        "def train(x, y, optimizer):\n"
        "    model = Attention(8)\n"
        "    F.mse_loss(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    assert crashes({"one": code}) == []


def test_a_deep_expression_and_deep_nesting() -> None:
    total = "loss = " + " + ".join(["x"] * 2_000) + "\nloss.backward()\n"
    nested = "".join(f"{'  ' * depth}if c{depth}:\n" for depth in range(90)) + "  " * 90 + "loss.backward()\n"
    calls = "y = " + "f(" * 60 + "x" + ")" * 60 + "\n"
    assert crashes({"total": HEAD + total, "nested": HEAD + nested, "calls": HEAD + calls + "y.backward()\n"}) == []


@pytest.mark.parametrize(
    "body",
    [
        "def f():\n    return f\nf()()()().backward()\n",
        "torch.arange(start=0, end=5).backward()\ntorch.linspace(start=0, end=1, steps=3).backward()\n",
        "class A(A):\n    pass\nA().backward()\n",
        "class A(A.b):\n    def b(self): pass\nclass C(D().c): pass\nclass D(C().d): pass\nA().backward()\n",
        "class A: pass\nclass B(A): pass\nA.__bases__ = (B,)\nclass A(B): pass\nA().fit().backward()\n",
        "a = [a] = {}\na[0] = a\na.append(a)\na.backward()\n",
        "def g(*, k=(lambda: g)()):\n    yield from g()\nfor x in g():\n    x.backward()\n",
        "x = y = (x, y)\nx, (y, *x) = x\nx.backward()\n",
        (
            "class M(nn.Module):\n    def __init__(self):\n        self.m = M()\n        self.w = self.m.m.m.w\n"
            "    def forward(self, x):\n        return self.forward(self(x))\nM()(1).backward()\n"
        ),
        "@property\n@staticmethod\n@(yield_ := torch.no_grad)\ndef f(x): return f(x)\nf(1).backward()\n",
        "while True:\n    try:\n        continue\n    finally:\n        break\nelse:\n    loss.backward()\n",
        "with torch.no_grad() as a, a() as a, (a if a else a): a.backward()\n",
        "match [1, {'a': (b := 2)}]:\n    case [x, {'a': y, **r}] if x.backward(): y.backward()\n    case _: del x\n",
        "def f(n):\n    global f\n    f = lambda *a, **k: f(*a, **k)\n    return f(n - 1)\nf(3).backward()\n",
    ],
)
def test_definitions_in_terms_of_themselves(body: str) -> None:
    assert crashes({"odd": HEAD + body}) == []


NAMES = st.sampled_from(["model", "opt", "loss", "x", "y", "loader", "self", "Net", "step"])
ATOMS = NAMES | st.sampled_from(
    ["(0)", "None", "'a'", "nn.Linear(2, 2)", "torch.no_grad()", "nn.CrossEntropyLoss()", "[]"]
)


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    methods = st.sampled_from(
        ["backward", "step", "zero_grad", "eval", "train", "parameters", "softmax", "items", "fit"]
    )
    return st.one_of(
        st.builds("{}({})".format, inner, inner),
        st.builds("{}.{}({})".format, inner, methods, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{} for {} in {}]".format, inner, NAMES, inner),
        st.builds("({} + {})".format, inner, inner),
        st.builds("{{'k': {}, **{}}}".format, inner, inner),
        st.builds("(lambda {}: {})".format, NAMES, inner),
        st.builds("F.cross_entropy({}, *{})".format, inner, inner),
        st.builds("torch.optim.SGD({}, {})".format, inner, inner),
    )


EXPRESSIONS = st.recursive(ATOMS, _combined, max_leaves=8)


def _block(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    heads = st.one_of(
        st.builds("for {} in {}:".format, NAMES, EXPRESSIONS),
        st.builds("while {}:".format, EXPRESSIONS),
        st.builds("if {}:".format, EXPRESSIONS),
        st.builds("with {} as {}:".format, EXPRESSIONS, NAMES),
        st.builds("def {}({}, *args, **kwargs):".format, NAMES, NAMES),
        st.builds("class {}({}):".format, NAMES, st.sampled_from(["nn.Module", "object", "Net", "nn.Sequential"])),
    )

    def indented(head: str, bodies: list[list[str]]) -> list[str]:
        return [head, *(f"    {line}" for body in bodies for line in body)]

    return st.builds(indented, heads, st.lists(inner, min_size=1, max_size=3))


LINES = st.one_of(
    st.builds("{} = {}".format, NAMES, EXPRESSIONS),
    st.builds("{}.{} = {}".format, NAMES, NAMES, EXPRESSIONS),
    st.builds("{}, {} = {}".format, NAMES, NAMES, EXPRESSIONS),
    st.builds("{} += {}".format, NAMES, EXPRESSIONS),
    EXPRESSIONS,
).map(lambda line: [line])
PROGRAMS = st.lists(st.recursive(LINES, _block, max_leaves=8), min_size=1, max_size=5)


@settings(max_examples=60, derandomize=True)
@given(PROGRAMS)
def test_generated_programs(program: list[list[str]]) -> None:
    code = HEAD + "\n".join(line for part in program for line in part) + "\nloss.backward()\n"
    assert crashes({"generated": code}) == []


@settings(max_examples=25, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_files_that_import_each_other_in_circles(chance: Random) -> None:
    """`python tests/fuzz_lint.py --circles 5000` makes more of them."""
    sources = circle(chance)
    assert [answer.traceback for answer in analyse(sources) if isinstance(answer, Crash)] == []


def test_one_file_twice_under_two_names(tmp_path: Path) -> None:
    code = HEAD + "def train(model, opt, x, y):\n    F.mse_loss(model(x), y).backward()\n    opt.step()\n"
    assert crashes({"a": code, "b": code}) == []


def test_a_class_named_by_the_settings_of_a_function_that_its_method_is_called_like() -> None:
    """Whether `trainer.train()` means this `train` hangs on its settings, and those on who calls this `train`."""
    files = {
        "trainers": HEAD + "class Plain:\n    def __init__(self, cfg, model):\n        self.model = model\n",
        "main": HEAD
        + (
            "import trainers\n"
            "def train(cfg):\n"
            "    model = nn.Linear(2, 2)\n"
            "    optimizer = getattr(torch.optim, cfg.optimizer)(model.parameters())\n"
            "    trainer = getattr(trainers, cfg.trainer)(cfg, model)\n"
            "    trainer.train()\n"
            "    F.mse_loss(model(torch.ones(2)), torch.ones(2)).backward()\n"
            "    optimizer.step()\n"
            "def main(args):\n"
            "    cfg = getattr(settings, args['config'])(args['file'])\n"
            "    train(cfg)\n"
        ),
    }
    assert crashes(files) == []


MADE_OF_ITSELF = {
    "functions that return each other's penalty": """
def penalty(critic, x, deep):
    x = x.requires_grad_(True)
    g, = torch.autograd.grad(critic(x).sum(), x)
    value = ((g.norm(2, 1) - 1) ** 2).mean()
    if deep:
        value = value + again(critic, x, False)
    return value
def again(critic, x, deep):
    return penalty(critic, x, deep)
""",
    "a list of transforms": """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
def build(train):
    steps = [transforms.ToTensor()]
    if train:
        steps += [*steps]
        steps.extend([*steps, transforms.RandomHorizontalFlip()])
    return transforms.Compose(steps)
data = DataLoader(datasets.CIFAR10("x", train=False, transform=build(True)), 4)
""",
    "pipelines": """
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
def prepare(x, y):
    for _ in range(3):
        one = Pipeline([("a", two)])
        two = Pipeline([("b", one)])
    return train_test_split(two.fit_transform(x), y)
""",
    "settings": """
from torch.utils.data import DataLoader
def run(cfg, data):
    run(cfg, data)
    run(cfg.inner, data)
    return DataLoader(data, **cfg)
run(dict(shuffle=True), 1)
""",
}


@pytest.mark.parametrize("code", MADE_OF_ITSELF.values(), ids=list(MADE_OF_ITSELF))
def test_what_is_made_of_itself(code: str) -> None:
    assert crashes({"train": HEAD + code}) == []


def test_what_is_unpacked_of_fewer_or_unknown_parts() -> None:
    """`a, b, c = x, *rest`: which part goes where is known up to the star alone."""
    code = HEAD + (
        "def compare(encode, head, x, y, *rest):\n"
        "    z, w, p, q = encode(x), *rest\n"
        "    one, *others = head(z), head(w)\n"
        "    d, e = encode(x), encode(y), encode(x)\n"
        "    u, v = head(d), head(e)\n"
        "    loss = F.cosine_similarity(u, e.detach()) + F.cosine_similarity(v, d) + F.mse_loss(p, q.data)\n"
        "    loss.mean().backward()\n"
        "    xs, ys, *zs = [], []\n"
        "    return one, others, xs, ys, zs\n"
    )
    assert crashes({"train": code}) == []
