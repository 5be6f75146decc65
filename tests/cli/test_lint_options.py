"""`mlcheck lint` with everything it takes: files and standard input, formats, the baseline, the cache."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from mlcheck.cli import main
from mlcheck.cli.output import FORMATS

FORGETFUL = """\
import torch
from torch import nn


def train(loader):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""
CAREFUL = FORGETFUL.replace("        loss.backward()", "        optimizer.zero_grad()\n        loss.backward()")
MODEL = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x.softmax(1)\n"
LOOP = """\
from net import Net
import torch.nn.functional as F


def loss(x, y):
    return F.cross_entropy(Net()(x), y)
"""

Out = pytest.CaptureFixture[str]
Type = Callable[[str], None]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """Puts text on standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def found(capsys: Out) -> list[tuple[str, int]]:
    report = json.loads(capsys.readouterr().out)
    places = [finding["location"] for result in report["results"] for finding in result["findings"]]
    return [(place["path"], place["line"]) for place in places]


# formats


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_tells_the_finding(capsys: Out, form: str) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "--format", form]) == 1
    assert "missing-zero-grad" in capsys.readouterr().out


def test_json_is_what_its_schema_says(capsys: Out) -> None:
    write("train.py", FORGETFUL)
    main(["lint", "--format", "json"])
    schema = json.loads((files("mlcheck.report") / "schema" / "report-1.json").read_text(encoding="utf-8"))
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, schema)
    assert [f["fingerprint"] for r in report["results"] for f in r["findings"] if len(f["fingerprint"]) == 32]


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "text"])
def test_output_goes_to_a_file_and_text_to_the_terminal(capsys: Out, form: str) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "--format", form, "--output", "found"]) == 1
    assert "train.py:10:9: error[missing-zero-grad]" in capsys.readouterr().out
    assert "missing-zero-grad" in Path("found").read_text(encoding="utf-8")


def test_text_goes_to_the_file_alone(capsys: Out) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "--output", "found.txt"]) == 1
    assert capsys.readouterr().out == ""
    assert "train.py:10:9" in Path("found.txt").read_text(encoding="utf-8")


def test_a_file_has_no_colours(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    write("train.py", FORGETFUL)
    main(["lint", "--output", "found.txt"])
    assert "\x1b" not in Path("found.txt").read_text(encoding="utf-8")
    main(["lint"])
    assert "\x1b" in capsys.readouterr().out


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "html"])
def test_a_saved_report_is_shown_in_every_format_as_lint_showed_it(capsys: Out, form: str) -> None:
    write("train.py", FORGETFUL)
    main(["lint", "--format", "json", "--output", "run.json"])
    capsys.readouterr()
    assert main(["lint", "--format", form, "--output", "expected" if form != "json" else "run.json"]) == 1
    expected = Path("expected" if form != "json" else "run.json").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["report", "run.json", "--format", form]) == 1
    shown = capsys.readouterr().out
    if form == "junit":
        shown, expected = (
            ElementTree.canonicalize(text, exclude_attrs=["time", "timestamp"]) for text in (shown, expected)
        )
    assert shown == expected


def test_paths_are_told_from_the_root_of_the_checkout(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".git").mkdir()
    write("sub/train.py", FORGETFUL)
    monkeypatch.chdir("sub")
    main(["lint", "--format", "gitlab"])
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["location"]["path"] == "sub/train.py"


def test_statistics_count_the_findings_of_each_rule(capsys: Out) -> None:
    write("a.py", FORGETFUL)
    write("b.py", FORGETFUL)
    assert main(["lint", "--statistics"]) == 1
    assert (
        capsys.readouterr().out == "2  error    missing-zero-grad  Gradients are cleared before every backward pass\n"
    )
    write("a.py", CAREFUL)
    write("b.py", CAREFUL)
    assert main(["lint", "--statistics"]) == 0
    assert capsys.readouterr().out == "Found nothing\n"


def test_findings_may_be_no_reason_to_fail(capsys: Out) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "--exit-zero"]) == 0
    assert "missing-zero-grad" in capsys.readouterr().out
    assert main(["lint", "--exit-zero", "nowhere.py"]) == 2


@pytest.mark.parametrize(
    "code",
    [
        CAREFUL.replace("loss.backward()", "loss.backward()  # mlcheck: ignore[missing-zero-grad] no longer"),
        CAREFUL.replace("(model(inputs), labels)", "(model(inputs).log_softmax(1), labels)"),
        "x = 1  # mlcheck: ignroe\n",
    ],
)
def test_strict_counts_notes_and_comments_that_hide_nothing(capsys: Out, code: str) -> None:
    write("train.py", code)
    assert main(["lint"]) == 0
    assert main(["lint", "--strict"]) == 1
    assert main(["lint", "--strict", "--exit-zero"]) == 0
    main(["lint", "--format", "json", "--output", "run.json"])
    assert main(["report", "run.json", "--strict"]) == 1
    assert main(["report", "run.json"]) == 0
    write("train.py", CAREFUL)
    assert main(["lint", "--strict"]) == 0


def test_rules_can_be_added_to_those_of_the_config(capsys: Out) -> None:
    write("train.py", FORGETFUL)
    write("pyproject.toml", '[tool.mlcheck]\nselect = ["softmax-before-ce"]\n')
    assert main(["lint"]) == 0
    assert main(["lint", "--extend-select", "missing-zero-grad"]) == 1


# standard input


def test_standard_input_stands_for_a_file(capsys: Out, typed: Type) -> None:
    write("train.py", CAREFUL)
    typed(FORGETFUL)
    assert main(["lint", "--stdin-filename", "train.py", "--format", "json"]) == 1
    assert found(capsys) == [("train.py", 10)]


def test_a_dash_is_standard_input(capsys: Out, typed: Type) -> None:
    typed(FORGETFUL)
    assert main(["lint", "-", "--format", "json"]) == 1
    assert found(capsys) == [("stdin.py", 10)]


def test_the_program_around_it_is_read_and_only_its_own_findings_are_told(capsys: Out, typed: Type) -> None:
    write("net.py", "class Net: ...\n")
    write("loop.py", LOOP)
    write("other.py", FORGETFUL)
    typed(MODEL)
    assert main(["lint", "--stdin-filename", "net.py", ".", "--format", "json"]) == 1
    assert found(capsys) == [("net.py", 6)]
    typed(MODEL)
    assert main(["lint", "--stdin-filename", "net.py", "--format", "json"]) == 0


def test_a_config_says_what_is_around_it(capsys: Out, typed: Type) -> None:
    write("pyproject.toml", '[tool.mlcheck]\npaths = ["src"]\n')
    write("src/loop.py", LOOP)
    typed(MODEL)
    assert main(["lint", "--stdin-filename", "src/net.py", "--format", "json"]) == 1
    assert found(capsys) == [("src/net.py", 6)]
    typed(MODEL)
    assert main(["lint", "--stdin-filename", "elsewhere/net.py", "--format", "json"]) == 0


def test_empty_input_is_fine(typed: Type) -> None:
    typed("")
    assert main(["lint", "-"]) == 0


# baseline and cache


def test_a_baseline_is_written_used_and_shrinks(capsys: Out) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "--write-baseline"]) == 0
    assert "mlcheck-baseline.json: written with 1 known finding" in capsys.readouterr().out
    assert main(["lint"]) == 0
    assert "mlcheck-baseline.json hides 1 finding" in capsys.readouterr().out
    assert main(["lint", "--no-baseline"]) == 1
    Path("mlcheck-baseline.json").rename("known.json")
    assert main(["lint"]) == 1
    assert main(["lint", "--baseline", "known.json"]) == 0
    write("pyproject.toml", '[tool.mlcheck]\nbaseline = "known.json"\n')
    assert main(["lint"]) == 0
    assert main(["lint", "--no-baseline"]) == 1
    capsys.readouterr()
    write("train.py", CAREFUL)
    assert main(["lint"]) == 0
    assert "1 finding fixed" in capsys.readouterr().out
    assert main(["lint", "--write-baseline"]) == 0
    assert main(["lint"]) == 0
    assert "fixed" not in capsys.readouterr().out.split("written")[1]


@pytest.mark.parametrize("other", [["--write-baseline"], ["--baseline", "x.json"]])
def test_no_baseline_is_none(capsys: Out, other: list[str]) -> None:
    assert main(["lint", "--no-baseline", *other]) == 2
    assert "goes with neither" in capsys.readouterr().err


def test_the_cache_is_beside_the_config_and_can_be_elsewhere_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    write("pyproject.toml", "[tool.mlcheck]\n")
    write("sub/train.py", CAREFUL)
    monkeypatch.chdir("sub")
    main(["lint", "--no-cache"])
    assert not Path("../.mlcheck_cache").exists()
    main(["lint", "--cache-dir", "kept"])
    assert list(Path("kept").glob("lint-*.json"))
    assert not Path("../.mlcheck_cache").exists()
    main(["lint"])
    assert list(Path("../.mlcheck_cache").glob("lint-*.json"))
    assert not Path(".mlcheck_cache").exists()


@pytest.mark.parametrize("version", ["two", "2", "2.x", "2.1.0.1"])
def test_a_version_of_torch_is_a_version(capsys: Out, version: str) -> None:
    assert main(["lint", "--target-torch", version]) == 2
    assert "such as 2.12" in capsys.readouterr().err


# terminals


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_a_terminal_that_lacks_characters_gets_plain_ones(encoding: str) -> None:
    write("größe.py", FORGETFUL.replace("loss.backward()", "名前 = '…→·'; loss.backward()"))
    for arguments in (["lint", "."], ["lint", ".", "--format", "github"], ["rules"], ["explain", "missing-zero-grad"]):
        environment = {**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C"}
        done = subprocess.run(
            [sys.executable, "-m", "mlcheck", *arguments], env=environment, capture_output=True, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        assert b"Traceback" not in done.stderr
        assert b"missing-zero-grad" in done.stdout
        done.stdout.decode(encoding)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_is_one_sentence() -> None:
    write("train.py", FORGETFUL)
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mlcheck", "lint"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr
