"""The laws of the house, read off the source: who may import whom, who prints, how long a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from inspect import signature
from pathlib import Path

import pytest

import mlcheck
import mlcheck.experiment.checks
import mlcheck.lint.checks
import mlcheck.load.checks
import mlcheck.probe.checks
from mlcheck.core.check import find_checks
from mlcheck.core.outcome import By
from mlcheck.lint.nodes import dotted, walk
from tests import pages

PACKAGE = Path(mlcheck.__file__).resolve().parent
MODULES = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
STANDARD = set(sys.stdlib_module_names)
RULES = {rule.name: rule for rule in pages.RULES}

# Part of the house -> what it may import besides itself and the standard library.
MAY_IMPORT = {
    "mlcheck.core": set(),
    "mlcheck.lint": {"mlcheck.core"},
    "mlcheck.yaml12": {"yaml"},
    "mlcheck.experiment": {"mlcheck.core", "mlcheck.lint", "mlcheck.yaml12", "yaml"},
    "mlcheck.trial": {"mlcheck.core", "mlcheck.yaml12", "torch", "numpy", "yaml", "determined", "greenlet"},
    "mlcheck.probe": {"mlcheck.core", "mlcheck.trial", "torch", "numpy", "PIL"},
    "mlcheck.load": {"mlcheck.core", "mlcheck.trial", "torch", "numpy", "psutil", "onnxruntime", "locust", "gevent"},
    "mlcheck.report": {"mlcheck.core", "rich", "jinja2", "markupsafe"},
    "mlcheck.config": {"mlcheck.core"},
    "mlcheck.project": {
        "mlcheck.config",
        "mlcheck.core",
        "mlcheck.experiment",
        "mlcheck.lint",
        "mlcheck.probe",
        "yaml",
    },
    "mlcheck.survey": {"mlcheck.core", "mlcheck.lint", "yaml"},
    "mlcheck.checklist": {"mlcheck.core", "mlcheck.experiment", "mlcheck.lint", "mlcheck.probe"},
    "mlcheck.cli": {"mlcheck", "rich", "yaml"},
    "mlcheck.pytest_plugin": {
        "mlcheck.project",
        "mlcheck.config",
        "mlcheck.core",
        "mlcheck.lint",
        "mlcheck.probe",
        "mlcheck.report",
        "mlcheck.trial",
        "numpy",
        "pytest",
        "torch",
    },
    "mlcheck.__main__": {"mlcheck.cli"},
    "mlcheck.__init__": set(),
}
# What a load check judges: plain data, the limits, and the statistics.
LOAD_EVIDENCE = {
    *(
        "start",
        "cases",
        "survey",
        "ladder",
        "crew",
        "machine",
        "quality",
        "query_files",
        "handover",
        "sbs",
        "satisfaction",
        "limits",
    ),
    *("judging", "wording", "binomial", "percentiles", "series"),
}
# What a check of configs reads.
CONFIG_FACTS = {"seen", "document", "dialect", "ranges", "field_rules", "folder", "grid", "command_line"}
# A check of the package -> what it may import besides core.
CHECKS_MAY_IMPORT = {
    "mlcheck.lint.checks": {
        "mlcheck.lint.facts",
        "mlcheck.lint.rereading",
        "mlcheck.lint.training",
        "mlcheck.lint.values",
        "mlcheck.lint.judging",
        "mlcheck.lint.sites",
        "mlcheck.lint.shapes.facts",
        "mlcheck.lint.shapes.algebra",
        "mlcheck.lint.names",
        "mlcheck.lint.nodes",
        "mlcheck.lint.words",
    },
    "mlcheck.experiment.checks": {f"mlcheck.experiment.{name}" for name in CONFIG_FACTS} | {"yaml"},
    "mlcheck.probe.checks": {"mlcheck.probe.measure", "mlcheck.trial.trial", "torch"},
    "mlcheck.load.checks": {f"mlcheck.load.{name}" for name in LOAD_EVIDENCE} | {"numpy"},
}
LONGEST_FILE = 265
LONGEST_FUNCTION = 60


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax of every module: a million objects, which no other test should have to carry along."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


@pytest.fixture(scope="module")
def nodes(trees: dict[str, ast.Module]) -> dict[str, list[ast.AST]]:
    """All that stands in every module, walked through once."""
    return {name: walk(tree) for name, tree in trees.items()}


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, inside functions and for typing too."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def imports_at_start(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Of the imports those at the top level, run whenever the module is loaded."""
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from imports([statement])


def modules_behind(name: str) -> set[str]:
    """The modules loaded for an import of `name`, which may be one or stand in one: `mlcheck.core.rule.Rule`."""
    here = {name, name.rpartition(".")[0]}
    return (here | {f"{part}.__init__" for part in here}) & set(MODULES)


def within(name: str, parts: set[str]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def part_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def strays(module: str, nodes: Iterable[ast.AST], allowed: set[str]) -> list[str]:
    """What a module imports besides the standard library and what it may."""
    return [
        f"{module}, line {line}: {name}"
        for line, name in imports(nodes)
        if name.split(".")[0] not in STANDARD and not within(name, allowed)
    ]


def test_every_part_of_the_house_says_what_it_may_import() -> None:
    unknown = {part_of(module) for module in MODULES} - set(MAY_IMPORT)
    assert not unknown, "new parts of the house: say in this file what they may import"


def test_a_part_imports_only_what_it_may(nodes: dict[str, list[ast.AST]]) -> None:
    found = []
    for module, inside in nodes.items():
        allowed = MAY_IMPORT[part_of(module)] | {part_of(module), "__future__"}
        found += strays(module, inside, allowed)
    assert [each for each in found if each.rpartition(" ")[2] not in {"mlcheck", "mlcheck.__version__"}] == []


def test_no_module_imports_itself_by_a_detour(trees: dict[str, ast.Module]) -> None:
    """Any module can be imported first. Imports for typing only, and those within functions, run later or never."""
    needed = {
        module: {found for _, name in imports_at_start(tree) for found in modules_behind(name) if found != module}
        for module, tree in trees.items()
    }
    TopologicalSorter(needed).prepare()


def test_a_check_imports_facts_and_never_an_engine_or_another_check(nodes: dict[str, list[ast.AST]]) -> None:
    checks = [name for name in MODULES if re.search(r"\.checks\.(?!__init__)", name)]
    found = []
    for module in checks:
        found += strays(module, nodes[module], CHECKS_MAY_IMPORT[module.rpartition(".")[0]] | {"mlcheck.core"})
    assert len(checks) > 200
    assert found == []


def test_only_the_command_line_prints_or_exits(nodes: dict[str, list[ast.AST]]) -> None:
    spoken = {"print", "input", "breakpoint", "exit", "quit", "sys.exit", "sys.stdout.write", "sys.stderr.write"}
    assert [
        f"{module}, line {node.lineno}: {dotted(node.func)}()"
        for module, inside in nodes.items()
        if part_of(module) != "mlcheck.cli"
        for node in inside
        if isinstance(node, ast.Call) and dotted(node.func) in spoken
    ] == []


def test_a_file_has_one_purpose_and_a_readable_length() -> None:
    lines = {module: path.read_text(encoding="utf-8").count("\n") for module, path in MODULES.items()}
    longer = {module: count for module, count in lines.items() if count > LONGEST_FILE}
    assert not longer, f"split by purpose: {longer}"


def test_a_function_fits_a_screen(nodes: dict[str, list[ast.AST]]) -> None:
    assert [
        f"{module}, line {function.lineno}: {function.name}"
        for module, inside in nodes.items()
        for function in inside
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and (function.end_lineno or function.lineno) - function.lineno + 1 > LONGEST_FUNCTION
    ] == []


def test_arguments_are_named_and_state_is_local(nodes: dict[str, list[ast.AST]]) -> None:
    """A closure that stands in for somebody else's function takes what that one takes; nothing else does."""
    for module, inside in nodes.items():
        own = [node for scope in inside if isinstance(scope, ast.Module | ast.ClassDef) for node in scope.body]
        assert [f.name for f in own if isinstance(f, ast.FunctionDef) and f.args.kwarg] == [], module
        assert [node.lineno for node in inside if isinstance(node, ast.Global)] == [], module


def test_modules_are_named_for_what_they_do() -> None:
    assert [module for module in MODULES if re.search(r"\b(utils?|helpers?|misc|common)$", module)] == []


def test_names_of_pages_are_words_joined_by_hyphens() -> None:
    for name in RULES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name), name


def check_names(package: object) -> set[str]:
    folder = Path(package.__path__[0])  # type: ignore[attr-defined]
    return {path.stem.replace("_", "-") for path in folder.glob("*.py") if path.stem != "__init__"}


@pytest.mark.parametrize(
    ("by", "package"),
    [
        (By.LINT, (mlcheck.lint.checks, mlcheck.experiment.checks)),
        (By.PROBE, (mlcheck.probe.checks,)),
        (By.LOAD, (mlcheck.load.checks,)),
    ],
)
def test_every_page_has_its_checks_and_every_check_its_page(by: By, package: tuple[object, ...]) -> None:
    promised = {name for name, rule in RULES.items() if by in rule.by}
    written = {name for part in package for name in check_names(part)}
    assert promised - written == set(), "pages without a check"
    assert written - promised == set(), "checks without a page that names them"


def test_an_option_of_a_page_is_one_of_its_check_with_the_same_default() -> None:
    told = {name: {one.name: one.default for one in rule.options} for name, rule in RULES.items()}
    taken: dict[str, dict[str, object]] = {name: {} for name in RULES}
    for package in (mlcheck.probe.checks, mlcheck.load.checks, mlcheck.lint.checks, mlcheck.experiment.checks):
        for check in find_checks(package):
            parameters = signature(check.run).parameters.values()
            taken[check.rule] |= {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert told == taken
    assert any(told.values())


def test_every_page_says_who_answers() -> None:
    assert [name for name, rule in RULES.items() if not rule.by] == []


def test_a_page_explains_only_rules_that_exist() -> None:
    unknown = {name: set(rule.explains) - set(RULES) for name, rule in RULES.items()}
    assert not {name: others for name, others in unknown.items() if others}


def test_what_lint_answers_is_shown_wrong_and_right() -> None:
    for name, rule in RULES.items():
        if By.LINT in rule.by:
            assert {example.kind for example in rule.examples} == {"bad", "good"}, name
            assert all(bool(example.errors) == (example.kind == "bad") for example in rule.examples), name


def test_a_sign_off_page_says_what_a_good_answer_is() -> None:
    for name, rule in RULES.items():
        if rule.by == (By.SIGN_OFF,):
            assert "## A good answer" in rule.body, name
            assert f"[sign.{name}]" in rule.body, name


def test_lint_runs_without_loading_what_is_heavy(tmp_path: Path) -> None:
    """Neither the arrays nor the drawing libraries, and never the code that is read."""
    program = tmp_path / "program.py"
    program.write_text("import torch\nimport numpy\nraise SystemExit('this program was run')\n", encoding="utf-8")
    script = (
        "import sys\n"
        "from mlcheck.cli import main\n"
        f"code = main(['lint', {str(program)!r}])\n"
        "heavy = {'torch', 'numpy', 'rich', 'yaml', 'jinja2', 'PIL', 'program'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_starting_lint_parses_no_page(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("x = 1\n", encoding="utf-8")
    script = (
        "import sys\n"
        "from mlcheck.cli import main\n"
        "main(['lint', 'clean.py'])\n"
        "sys.exit('mlcheck.core.rule' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_examples_of_pages_end_where_they_should() -> None:
    """A fence that is lost or left over turns prose into code and code into prose for whoever reads the page."""
    for page in sorted((PACKAGE.parent / "rules").rglob("*.md")):
        fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
        opened = fences[::2]
        assert all(line != "```" for line in opened), page
        assert fences[1::2] == ["```"] * len(opened), page
