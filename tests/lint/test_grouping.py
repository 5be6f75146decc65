"""Which files belong together: those joined by imports, in every way that Python writes one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mlcheck.lint.files.grouping import group
from mlcheck.lint.files.outlines import Member, outline
from mlcheck.lint.files.source import Source
from mlcheck.lint.run import LintSettings, run_lint

ROOT = Path(__file__).resolve().parents[2]


def member(name: str, text: str) -> Member:
    """A file by its path, its module named as from the root."""
    module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return Member(name, module, outline(Source(name, text, ast.parse(text), module)))


def groups(files: dict[str, str]) -> list[set[str]]:
    members = [member(name, text) for name, text in files.items()]
    return [{members[number].path for number in found.members} for found in group(members)]


@pytest.mark.parametrize(
    "text",
    [
        "import net",
        "import net as n",
        "from net import Net",
        "from net import *",
        "def build():\n    from net import Net",
        "try:\n    import torch\nexcept ImportError:\n    import net",
        "try:\n    pass\nfinally:\n    import net",
        "if True:\n    pass\nelse:\n    import net",
        "class A:\n    import net",
        "for _ in ():\n    import net",
        "with open('x'):\n    import net",
        "while False:\n    pass\nelse:\n    import net",
        "match 1:\n    case 1:\n        import net",
        "import os, net",
        "from . import net",
        "from .net import Net",
    ],
)
def test_an_import_joins(text: str) -> None:
    assert groups({"train.py": text, "net.py": "class Net: ...", "other.py": "x = 1"}) == [
        {"train.py", "net.py"},
        {"other.py"},
    ]


@pytest.mark.parametrize("text", ["x = 'import net'", "# import net", "import network", "net = 1", "import torch.net"])
def test_what_is_no_import_does_not_join(text: str) -> None:
    assert len(groups({"train.py": text, "net.py": "class Net: ..."})) == 2


@pytest.mark.parametrize(
    "text",
    [
        "from pack.models import net",
        "from pack.models.net import Net",
        "import pack.models.net",
        "from ..models import net",
        "from ..models.net import Net",
        "from models.net import Net",
    ],
)
def test_packages_are_followed(text: str) -> None:
    files = {"pack/train/fit.py": text, "pack/models/net.py": "class Net: ...", "pack/other.py": ""}
    assert {"pack/train/fit.py", "pack/models/net.py"} in groups(files)


def test_a_package_joins_what_it_exports() -> None:
    files = {"main.py": "import pack", "pack/__init__.py": "from pack.net import Net", "pack/net.py": ""}
    assert groups(files) == [set(files)]


def test_joined_by_a_third() -> None:
    files = {"a.py": "x = 1", "b.py": "x = 1", "main.py": "import a\nimport b", "alone.py": ""}
    assert groups(files) == [{"a.py", "b.py", "main.py"}, {"alone.py"}]


def test_a_name_that_two_folders_share_is_the_one_beside_the_importer() -> None:
    files = {"a/train.py": "import net", "a/net.py": "", "b/train.py": "import net", "b/net.py": ""}
    assert groups(files) == [{"a/train.py", "a/net.py"}, {"b/train.py", "b/net.py"}]


def test_every_file_is_in_one_group_in_order() -> None:
    members = [member(f"f{number}.py", f"import f{(number + 3) % 9}" if number % 2 else "") for number in range(9)]
    found = group(members)
    assert sorted(number for one in found for number in one.members) == list(range(9))
    assert all(list(one.members) == sorted(one.members) for one in found)
    assert [one.members[0] for one in found] == sorted(one.members[0] for one in found)


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("from other.lib import evaluate\nevaluate(1)", True),
        ("from other.lib import evaluate as score\nscore(1)", True),
        ("import other.lib\nother.lib.evaluate(1)", True),
        ("import other.lib as o\no.evaluate(1)", True),
        ("from other import lib\nlib.evaluate(1)", True),
        ("from other.lib import *\nevaluate(1)", True),
        ("import importlib\nimportlib.import_module(name).evaluate(1)", True),
        ("def evaluate(x): ...\nevaluate(1)", False),
        ("trainer.evaluate(1)", False),
        ("from metrics import evaluate\nevaluate(1)", False),
        ("from other.lib import train\ntrain(1)", False),
    ],
)
def test_calls_from_elsewhere_are_told_by_what_they_import(text: str, reached: bool) -> None:
    """Two files are so called, so that no import is certain to mean one of them."""
    files = [member(f"{place}/lib.py", "def evaluate(model): ...") for place in ("a", "b")]
    first, second, main = group([*files, member("main.py", text)])
    assert [first.called_elsewhere, second.called_elsewhere] == [frozenset(["evaluate"] if reached else [])] * 2
    assert main.called_elsewhere == frozenset()


def test_a_call_within_the_group_is_not_from_elsewhere() -> None:
    files = [member("lib.py", "def evaluate(model): ..."), member("main.py", "import lib\nlib.evaluate(1)")]
    (found,) = group(files)
    assert found.called_elsewhere == frozenset()


def test_two_files_of_one_module_name() -> None:
    files = [Member("a.py", "a", outline(Source("a.py", "", ast.parse(""), "a")))] * 2
    assert sorted(number for one in group(files) for number in one.members) == [0, 1]


def findings(*paths: str) -> set[tuple[str, str, int]]:
    results = run_lint(paths, LintSettings()).results
    return {(r.rule, f.location.path, f.location.line) for r in results for f in r.findings}


def test_what_lies_beside_a_project_changes_nothing() -> None:
    """Programs that know nothing of one another, though their functions bear the same names."""
    folders = sorted(str(path) for path in (ROOT / "examples" / "broken").iterdir() if path.is_dir())
    folders += sorted(str(path) for path in (ROOT / "tests" / "lint" / "fixtures").iterdir() if path.is_dir())
    together, apart = findings(*folders), set().union(*(findings(folder) for folder in folders))
    assert len({rule for rule, _, _ in together}) >= 5
    assert together == apart


def test_a_file_that_an_import_picks_by_name_is_any_of_its_package() -> None:
    inside = [member(f"models/{name}.py", "class Net: ...") for name in ("small", "large")]
    text = "import importlib\nnet = importlib.import_module('models.' + name).Net()"
    found = group([*inside, member("other/lone.py", "x = 1"), member("main.py", text)])
    assert [each.members for each in found] == [(0, 1, 3), (2,)]
