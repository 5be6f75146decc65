"""What a run costs, told by counts: how often a file is parsed and walked, how many steps the interpreter takes."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlcheck.core.check import find_checks
from mlcheck.lint import checks, names, nodes
from mlcheck.lint.engine import Crash, analyse
from mlcheck.lint.files import reading
from mlcheck.lint.files.source import Source, Unreadable, parse
from mlcheck.lint.interpret import roots
from mlcheck.lint.interpret.interpreter import Interpreter
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import Program
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.lint.sites import File, Named, Sites, walking
from mlcheck.lint.sites.scopes import Binding
from mlcheck.lint.sites.walk import Walk
from mlcheck.lint.work.tasks import Seen

PROJECT = {
    "model.py": "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n",
    "train.py": "import model\nnet = model.Net()\nnet.eval()\nnet(1).sum().backward()\n",
    "alone.py": "import json\n",
}
SCRIPT = """
import torch
from torch import nn

{functions}

def main(data, values):
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in data:
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
{body}

if __name__ == "__main__":
    main(read(), read())
"""
NEVER = {"torch", "numpy", "yaml", "rich", "multiprocessing", "concurrent", "importlib.metadata", "asyncio", "inspect"}
SLOW = {
    "dataclasses",
    "hashlib",
    "pathlib",
    "shutil",
    "threading",
    "tokenize",
    "tomllib",
    "urllib.parse",
    "textwrap",
    "traceback",
}
MOST_WALKED, MOST_WALKED_BY_ALL = 2, 8
"""How often one rule, and all together, may go through the nodes of a program that gives them much to look at."""
ARGPARSE = """
import argparse, sys
argparse.ArgumentParser(formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80)).format_help()
before = set(sys.modules)
"""
"""Whatever argparse cannot do without (in Python 3.14 `inspect` and `dataclasses`) is not for us to spare."""


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter[str]:
    """How often each file of the project was parsed, by name."""
    monkeypatch.chdir(tmp_path)
    for name, text in PROJECT.items():
        Path(name).write_text(text, encoding="utf-8")
    counts: Counter[str] = Counter()
    parse = reading.parse  # type: ignore[attr-defined]

    def counting(path: str, data: bytes, module: str, slim: bool) -> Source | Unreadable:
        counts[path] += 1
        return parse(path, data, module, slim)

    monkeypatch.setattr(reading, "parse", counting)
    return counts


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """How many steps the interpreter takes over a program."""
    taken = [0]
    tick = Machine.tick

    def counting(machine: Machine) -> None:
        taken[0] += 1
        tick(machine)

    def of(code: str, copies: int = 1) -> int:
        taken[0] = 0
        sources = [Source(f"m{number}.py", code, ast.parse(code), f"m{number}") for number in range(copies)]
        assert not [answer for answer in analyse(sources) if isinstance(answer, Crash)]
        return taken[0]

    monkeypatch.setattr(Machine, "tick", counting)
    return of


def script(body: str, functions: str = "") -> str:
    return SCRIPT.format(body="".join(f"    {line}\n" for line in body.splitlines()), functions=functions)


def nested(depth: int, inner: str) -> str:
    """Loops in one another."""
    lines = [f"{'    ' * level}for v{level} in values:" for level in range(depth)]
    return "\n".join([*lines, f"{'    ' * depth}{inner}"])


@pytest.mark.parametrize("cache", ["", ".cache"])
def test_a_file_is_parsed_once(parsed: Counter[str], cache: str) -> None:
    run_lint(["."], LintSettings(cache=cache))
    assert parsed == dict.fromkeys(PROJECT, 1)


def test_where_nothing_changed_no_file_is_parsed(parsed: Counter[str]) -> None:
    run_lint(["."], LintSettings(cache=".cache"))
    parsed.clear()
    run_lint(["."], LintSettings(cache=".cache"))
    assert not parsed


def test_only_what_is_connected_with_a_change_is_parsed_again(parsed: Counter[str]) -> None:
    run_lint(["."], LintSettings(cache=".cache"))
    parsed.clear()
    Path("alone.py").write_text("import os\n", encoding="utf-8")
    run_lint(["."], LintSettings(cache=".cache"))
    assert parsed == {"alone.py": 1}


def test_a_file_is_walked_once(parsed: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    walked: Counter[int] = Counter()
    run = walking.walked

    def counting(tree: ast.Module) -> Walk:
        walked[id(tree)] += 1
        return run(tree)

    monkeypatch.setattr(walking, "walked", counting)
    run_lint(["."], LintSettings())
    assert sorted(walked.values()) == [1] * len(PROJECT)


@pytest.mark.parametrize(("words", "unwanted"), [(["."], NEVER), (["--no-cache", "alone.py"], NEVER | SLOW)])
def test_lint_never_imports_what_it_does_not_need(words: list[str], unwanted: set[str], tmp_path: Path) -> None:
    """On the command line it runs anew for every save: what it does not need must not delay it."""
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    code = (
        f"{ARGPARSE}from mlcheck.cli import main\nmain(['lint', *{words}])\n"
        f"print('loaded', {unwanted} & (set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("loaded set()\n"), done.stdout + done.stderr


def test_the_version_is_told_without_loading_the_command_line(tmp_path: Path) -> None:
    code = "import sys\nfrom mlcheck.cli import main\nmain(['--version'])\nsys.exit('argparse' in sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("mlcheck ")


@pytest.mark.parametrize("words", [["--help"], ["lint", "--help"]])
def test_help_is_given_without_loading_what_it_tells_about(words: list[str]) -> None:
    code = (
        f"{ARGPARSE}from mlcheck.cli import main\ntry:\n    main({words})\nexcept SystemExit:\n    pass\n"
        "heavy = {'dataclasses', 'pathlib', 'threading', 'mlcheck.cli.commands', 'mlcheck.config'}\n"
        "print('loaded', heavy & (set(sys.modules) - before))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("usage: mlcheck ")
    assert done.stdout.endswith("loaded set()\n"), done.stdout + done.stderr


def test_loops_whose_turns_leave_nothing_are_walked_once(steps: Callable[[str], int]) -> None:
    """Eight loops in one another, each walked twice, would be 256 turns of the innermost."""
    plain = steps(script(""))
    assert steps(script(nested(8, "print(v0)"))) - plain < 50
    assert steps(script("total = 0\n" + nested(3, "total += len(v0)"))) - plain > 2**3


def test_a_function_that_never_brings_a_fact_is_given_up(steps: Callable[[str], int]) -> None:
    functions = "def pack(x, model):\n" + "".join(f"    x = wrap(x, model, {n})\n" for n in range(100))
    calls = "\n".join(f"x{n} = pack(values, nn.Linear({n}, 1))" for n in range(100))
    assert steps(script(calls, functions + "    return x, model\n")) < 5_000


def test_steps_grow_with_the_number_of_files_and_no_faster(steps: Callable[..., int]) -> None:
    code = script(nested(2, "print(v0)"))
    few, many = steps(code, copies=4), steps(code, copies=16)
    assert few > 100
    assert many == 4 * few


def test_names_of_a_package_that_passes_on_hundreds_of_others_are_looked_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`from .a import *`, for each of many packages that do the same: as libraries of models are built."""
    texts = {"lib.__init__": "from .models import *\n"}
    texts["lib.models.__init__"] = "".join(f"from .m{number} import *\n" for number in range(60))
    for number in range(60):
        texts[f"lib.models.m{number}.__init__"] = "from .net import *\nfrom .config import *\n"
        texts[f"lib.models.m{number}.net"] = f"class Net{number}: ...\n"
        texts[f"lib.models.m{number}.config"] = f"class Config{number}: ...\n"
    names = ", ".join(f"Net{number}" for number in range(60))
    texts["app"] = f"from lib import {names}, Missing\n" + "".join(f"Net{number}()\n" for number in range(60))
    sources = [
        Source(name.replace(".", "/") + ".py", text, ast.parse(text), name.removesuffix(".__init__"))
        for name, text in texts.items()
    ]
    steps = [0]
    imported = Sites.imported

    def counting(*arguments: Any) -> Any:
        steps[0] += 1
        return imported(*arguments)

    monkeypatch.setattr(Sites, "imported", counting)
    file = Sites(Program(sources)).files["app"]
    found = [file.resolve(call.node.func, call.context) for call in file.calls(*file.walk.calls)]
    assert [getattr(each, "name", "") for each in found] == [f"Net{number}" for number in range(60)]
    assert file.resolve(ast.Name("Missing", ast.Load()), file.walk.module) is None
    assert steps[0] < 60 * 5


@pytest.mark.parametrize("read", ["", "rates = list(given)\n"])
def test_names_that_star_imports_do_not_bring_are_looked_for_once(monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    """Modules that take all names from all modules before them: a thousand ways lead from the last to the first.

    Where the first gives a value to a name only when a function is called, each of them could have brought it.
    """
    stars = ["".join(f"from m{k} import *\n" for k in range(n)) for n in range(12)]
    texts = [f"{stars[n]}{read}value{n} = len(str(n))\n" for n in range(12)]
    texts[0] += "def fill():\n    global given\n    given = [1]\n" if read else ""
    texts[-1] += "import torch\nnet = torch.nn.Linear(value0, 1)\nnet(unknown).sum().backward()\n"
    sources = [Source(f"m{n}.py", text, ast.parse(text), f"m{n}") for n, text in enumerate(texts)]
    steps = [0]
    module_attribute = names.module_attribute

    def counting(*arguments: Any, **more: Any) -> Any:
        steps[0] += 1
        return module_attribute(*arguments, **more)

    monkeypatch.setattr(names, "module_attribute", counting)
    seen = [answer for answer in analyse(sources) if isinstance(answer, Seen)]
    assert seen[0].counts["backward pass"] == 1
    assert 0 < steps[0] < (500 if read else 200)


def test_a_name_that_leads_back_to_itself_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = "\n".join(f"    while node.{side}:\n        node = node.{side}" for side in ("up", "down", "left", "right"))
    code = f"import torch\n\n\ndef climb(node):\n{steps}\n    return torch.relu(node.cat(node))\n"
    looked, meaning = [0], File.meaning

    def counting(self: File, binding: Binding, depth: int = 12) -> Named:
        looked[0] += 1
        assert looked[0] < 1000
        return meaning(self, binding, depth)

    monkeypatch.setattr(File, "meaning", counting)
    assert not [answer for answer in analyse([Source("m.py", code, ast.parse(code), "m")]) if isinstance(answer, Crash)]
    assert looked[0]


class Counting(dict[type, tuple[str, ...]]):
    """The fields of each kind of node, which is asked once for every node that is walked."""

    asked = 0

    def __getitem__(self, kind: type) -> tuple[str, ...]:
        self.asked += 1
        return super().__getitem__(kind)


def test_rules_look_before_they_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is searched, and calls are looked up by name, before a rule goes through the nodes of a tree."""
    fields = Counting(nodes._FIELDS)
    monkeypatch.setattr(nodes, "_FIELDS", fields)
    texts = sorted((Path(__file__).parent / "fixtures").glob("*/*.py"))
    parsed = [parse(str(path), path.read_bytes(), f"{path.parent.name}.{path.stem}") for path in texts]
    sources = [source for source in parsed if isinstance(source, Source)]
    size = sum(len(nodes.walk(source.tree)) for source in sources)
    program = Program(sources)
    machine = Interpreter(program, Sites(program))
    for _, run in roots.plan(machine):
        run()
    walked: Counter[str] = Counter()
    for check in find_checks(checks):
        before = fields.asked
        list(check.run(machine.facts))
        walked[check.rule] = fields.asked - before
    assert [(rule, count / size) for rule, count in walked.items() if count > MOST_WALKED * size] == []
    assert sum(walked.values()) < MOST_WALKED_BY_ALL * size


def test_no_rule_compares_all_names_with_all() -> None:
    """What a rule does to signatures grows with their length, and not with its square: a library has long ones."""
    calls = {length: _calls_for_signatures(length) for length in (10, 40)}
    assert [rule for rule, many in calls[40].items() if many > 8 * calls[10][rule] + 2000] == []


def _calls_for_signatures(length: int) -> Counter[str]:
    """How many functions of Python's each check calls, for a file of functions with that many parameters."""
    given = ", ".join(f"part_{number}=None" for number in range(length))
    code = "import torch\n\n" + "\n\n".join(f"def layer{n}({given}):\n    return torch.relu(part_1)" for n in range(20))
    source = Source("m.py", code, ast.parse(code), "m")
    machine = Interpreter(program := Program([source]), Sites(program))
    counted: Counter[str] = Counter()
    for check in find_checks(checks):

        def count(_frame: object, event: str, _given: object, rule: str = check.rule) -> None:
            counted[rule] += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            list(check.run(machine.facts))
        finally:
            sys.setprofile(None)
    return counted
