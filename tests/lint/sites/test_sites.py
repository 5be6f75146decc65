"""The call-site layer: what names mean across files, what arguments hold, and where it must not guess."""

from __future__ import annotations

import ast
import inspect
import sys
from textwrap import dedent

import pytest

from mlcheck.lint.files.source import Source, parse
from mlcheck.lint.program import Program
from mlcheck.lint.sites import OPEN, UNKNOWN, Call, Sites, walking

LOADER = "torch.utils.data.DataLoader"


def program(**files: str) -> Sites:
    """A program of files, by their dotted names with `__` for the dots."""
    sources = []
    for name, text in files.items():
        module = name.replace("__", ".")
        source = parse(module.replace(".", "/") + ".py", dedent(text).encode(), module)
        assert isinstance(source, Source)
        sources.append(source)
    return Sites(Program(sources))


def only(sites: Sites, name: str = LOADER) -> Call:
    (call,) = sites.calls(name)
    return call


@pytest.mark.parametrize(
    ("imports", "callee"),
    [
        ("import torch", "torch.utils.data.DataLoader"),
        ("import torch.utils.data as data", "data.DataLoader"),
        ("from torch.utils import data", "data.DataLoader"),
        ("from torch.utils.data import DataLoader as DL", "DL"),
        ("from torch.utils.data.dataloader import DataLoader", "DataLoader"),
        ("from torch.utils.data import *", "DataLoader"),
        ("import torch\nimport torch.nn\nimport torch.utils.data", "torch.utils.data.DataLoader"),
        ("import torch\nLoader = torch.utils.data.DataLoader", "Loader"),
        ("try:\n    from torch.utils.data import DataLoader\nexcept ImportError:\n    DataLoader = None", "DataLoader"),
    ],
)
def test_a_call_is_found_however_it_was_imported(imports: str, callee: str) -> None:
    sites = program(train=f"{imports}\nloader = {callee}(data, shuffle=True)\n")
    assert only(sites).constant("shuffle", 2) is True


@pytest.mark.parametrize(
    "text",
    [
        "from mine import DataLoader\nDataLoader(d)",
        "from torch.utils.data import DataLoader\ndef f(DataLoader):\n    DataLoader(d)",
        "from torch.utils.data import DataLoader\nDataLoader = wrap(DataLoader)\nDataLoader(d)",
        "class DataLoader:\n    pass\nDataLoader(d)",
        "from torch.utils.data import DataLoader\n[DataLoader(d) for DataLoader in kinds]",
    ],
)
def test_a_name_that_means_something_else_is_not_taken_for_it(text: str) -> None:
    assert not list(program(train=text).calls(LOADER))


def test_names_are_followed_through_re_exports_and_relative_imports() -> None:
    sites = program(
        pkg__data="from torch.utils.data import DataLoader as Loader\n",
        pkg__api="from .data import Loader\n",
        pkg__train="from . import api\nfrom .api import Loader\nLoader(a)\napi.Loader(b)\n",
    )
    assert [call.node.lineno for call in sites.calls(LOADER)] == [3, 4]


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("shuffle=True", True),
        ("32, True", True),
        ("", False),
        ("shuffle=flag", True),
        ("shuffle=not flag", False),
        ("shuffle=CONFIG['shuffle']", True),
        ("**CONFIG", True),
        ("**dict(shuffle=True)", True),
        ("**{'batch_size': 3}", False),
    ],
)
def test_the_constant_behind_an_argument(given: str, value: object) -> None:
    text = f"""
        from torch.utils.data import DataLoader
        CONFIG = {{"shuffle": True}}
        flag = True
        DataLoader(data, {given})
    """
    assert only(program(train=text)).constant("shuffle", 2, False) is value


@pytest.mark.parametrize(
    ("before", "given"),
    [
        ("options = load()", "**options"),
        ("options = {}\noptions.update(load())", "**options"),
        ("options = {}\noptions['shuffle'] = True", "**options"),
        ("options = {'shuffle': True}\noptions = {}", "**options"),
        ("flag = False\nif x:\n    flag = True", "shuffle=flag"),
        ("flag = read()", "shuffle=flag"),
        ("rest = ()", "*rest"),
        ("for flag in (True, False): pass", "shuffle=flag"),
        ("flag = 1\nflag += 1", "shuffle=flag"),
    ],
)
def test_what_the_text_does_not_tell_is_unknown(before: str, given: str) -> None:
    text = f"from torch.utils.data import DataLoader\n{before}\nDataLoader(data, {given})"
    call = only(program(train=text))
    assert call.constant("shuffle", 2, False) is UNKNOWN
    assert call.argument("shuffle", 2) in (OPEN, *(keyword.value for keyword in call.node.keywords))


def test_a_class_knows_its_library_bases_through_files() -> None:
    sites = program(
        base="from torch import nn\nclass Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n",
        net="from base import Base\nclass Net(Base):\n    def forward(self, x):\n        return self.head(x)\n",
        other="from elsewhere import Thing\nimport torch\nclass Odd(Thing): pass\nclass Odder(make()): pass\n",
    )
    libraries = {cls.name: cls.libraries for cls in sites.classes}
    assert libraries["Net"] == {"torch.nn.Module"}
    assert libraries["Odd"] == {"elsewhere.Thing"}
    assert libraries["Odder"] == {"?"}
    (net,) = (cls for cls in sites.classes if cls.name == "Net")
    assert net.find("__init__") is not None
    assert [cls.name for cls in net.line] == ["Net", "Base"]


def test_what_stands_around_a_call() -> None:
    text = """
        import torch
        class Trainer:
            def fit(self):
                for epoch in range(3):
                    if epoch:
                        with torch.no_grad():
                            torch.save(self, "x")
    """
    call = only(program(train=text), "torch.save")
    assert call.function is not None
    assert call.function.name == "fit"
    assert call.cls is not None
    assert call.cls.name == "Trainer"
    assert len(call.loops) == 1
    assert [context.kind for context in call.context.outwards()] == [
        "with",
        "if",
        "loop",
        "function",
        "class",
        "module",
    ]
    assert call.place.location.symbol == "Trainer.fit"


def test_attributes_of_self_and_the_one_value_they_hold() -> None:
    text = """
        from torch.utils.data import DataLoader
        class Data:
            def __init__(self):
                self.shuffle = True
                self.size = 3
            def grow(self):
                self.size = 4
            def loader(self):
                return DataLoader(self, self.size, shuffle=self.shuffle)
    """
    call = only(program(train=text))
    assert call.constant("shuffle", 2) is True
    assert call.constant("batch_size", 1) is UNKNOWN


def test_callers_are_all_known_or_none_is() -> None:
    sites = program(
        make="def make(flag):\n    pass\ndef handed_on():\n    pass\nrun(handed_on)\n",
        use="from make import make as build\nbuild(1)\n",
        again="import make\nmake.make(2)\n",
    )
    functions = {function.name: function for function in sites.files["make"].functions}
    calls = sites.calls_of(functions["make"])
    assert calls is not None
    assert len(calls) == 2
    assert sites.calls_of(functions["handed_on"]) is None


def test_a_name_that_no_file_calls_is_never_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("resolved")

    sites = program(plain="from torch import nn\nlayer = nn.Linear(1, 1)\n", other="import torch\ntorch.zeros(1)\n")
    assert [call.name for call in sites.calls("torch.nn.Linear")] == ["torch.nn.Linear"]
    monkeypatch.setattr("mlcheck.lint.sites.file.File.resolve", refuse)
    assert not list(sites.calls(*(f"torch.nn.Unheard{number}" for number in range(100))))
    assert not list(sites.calls(LOADER))


def test_the_walk_reaches_every_call_that_a_plain_walk_reaches() -> None:
    for module in (ast, inspect, walking, sys.modules["argparse"], sys.modules["typing"]):
        tree = ast.parse(inspect.getsource(module))
        expected = {
            (node.lineno, node.col_offset, node.end_col_offset)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
        }
        reached = {
            (node.lineno, node.col_offset, node.end_col_offset)
            for calls in walking.walked(tree).calls.values()
            for node, _ in calls
        }
        assert reached >= expected - in_annotations(tree)


def in_annotations(tree: ast.Module) -> set[tuple[int, int, int | None]]:
    """Calls inside annotations, which are not walked."""
    notes = [node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign)]
    notes += [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {
        (node.lineno, node.col_offset, node.end_col_offset)
        for note in notes
        if note is not None
        for node in ast.walk(note)
        if isinstance(node, ast.Call)
    }


def test_words_are_counted_whole_and_in_all_files() -> None:
    sites = program(one="init_weights = 1\n", two="def _init_weights(): pass\n", test_three="x.init_weights()\n")
    assert sites.is_named("init_weights", times=2)
    assert not sites.is_named("init_weights", times=3)
    assert sites.is_named("_init_weights", times=1)
    assert not sites.is_named("init", times=1)


@pytest.mark.parametrize(
    "text",
    [
        "MAKE = {'plain': DataLoader}\nMAKE['plain'](data)\n",
        "MAKE = dict(plain=DataLoader)\nmake = MAKE['plain']\nmake(data)\n",
        "KIND = 'plain'\nMAKE = {'plain': DataLoader, 'other': list}\nMAKE[KIND](data)\n",
        "import torch.utils.data as kinds\nNAME = 'DataLoader'\ngetattr(kinds, NAME)(data)\n",
        "import torch.utils.data as kinds\nmake = getattr(kinds, 'DataLoader')\nmake(data)\n",
    ],
)
def test_what_a_table_or_a_name_stands_for_is_called(text: str) -> None:
    assert only(program(a=f"from torch.utils.data import DataLoader\n{text}")).argument("dataset", 0) is not None


@pytest.mark.parametrize(
    "text",
    [
        "MAKE = {'plain': DataLoader}\nMAKE['plain'] = find()\nMAKE['plain'](data)\n",
        "MAKE = {'plain': DataLoader}\nMAKE.update(more)\nMAKE['plain'](data)\n",
        "MAKE = {'plain': DataLoader, **more}\nMAKE['other'](data)\n",
        "def run(name, MAKE={'plain': DataLoader}):\n    MAKE[name](data)\n",
        "MAKE = {'plain': DataLoader}\ndef run(name='plain'):\n    MAKE[name](data)\n",
        "import torch.utils.data as kinds\ndef getattr(a, b): ...\ngetattr(kinds, 'DataLoader')(data)\n",
        "import torch.utils.data as kinds\ngetattr(kinds, 'DataLoader', list)(data)\n",
        "make = {'plain': DataLoader}['plain']\nmake = list\nmake(data)\n",
    ],
)
def test_a_table_that_may_hold_something_else_tells_nothing(text: str) -> None:
    assert not list(program(a=f"from torch.utils.data import DataLoader\n{text}").calls(LOADER))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("class A:\n    SIZE = 3\n    def f(self):\n        use(self.SIZE)\n", True),
        ("class A:\n    SIZE: int = 3\n    def f(self):\n        use(self.SIZE)\n", False),
        ("@record\nclass A:\n    SIZE = 3\n    def f(self):\n        use(self.SIZE)\n", False),
        ("class A:\n    SIZE = 3\n    def f(self):\n        use(self.SIZE)\nclass B(A):\n    SIZE = 4\n", False),
        ("class A:\n    SIZE = 3\n    def f(self):\n        use(self.SIZE)\nmade = A()\nmade.SIZE = 4\n", False),
    ],
)
def test_the_body_of_a_class_holds_a_constant_that_nobody_sets(text: str, told: bool) -> None:
    (call,) = program(a=text).files["a"].calls("use")
    assert (call.constant("size", 0) == 3) is told
