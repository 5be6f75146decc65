"""`mlcheck load` and `mlcheck sbs` as they are typed: templates, mistakes in one sentence, exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mlcheck.cli import main

SERVICE = """
def predict(query):
    return query["x"] % 2
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1
    return captured.err


def test_init_writes_templates_and_spares_what_is_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "slo.toml").write_text("mine", encoding="utf-8")
    assert main(["load", "--init"]) == 0
    assert (folder / "slo.toml").read_text(encoding="utf-8") == "mine"
    written = {path.name for path in folder.iterdir()}
    assert written == {"slo.toml", "random.jsonl", "complex.jsonl", "golden.jsonl", "labelled.jsonl"}
    assert "slo.toml is there already: left as it is" in capsys.readouterr().out
    assert all((folder / name).read_text(encoding="utf-8").startswith("#") for name in written - {"slo.toml"})


def test_templates_that_cannot_be_written_are_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlcheck.cli.output.replace_file", full)
    assert "complex.jsonl: cannot be written: No space left on device" in told(capsys, "load", "--init")
    assert not list(folder.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name what answers queries, as in `mlcheck load module:predict`"),
        (["a:b", "--url", "http://x"], "give an entry point or --url, not both"),
        (["--url", "localhost:80"], "--url localhost:80: write it as http://host:port/path"),
        (["a:b", "--workers", "1,two"], "`--workers 1,two`: write numbers of processes, like 1,2,4"),
        (["a:b", "--workers", "0"], "`--workers 0`: write numbers"),
        (["a:b", "--rate", "-1"], "--rate must be above 0, not -1"),
        (["a:b", "--only", "missing-zero-grad"], "`missing-zero-grad` is no rule that load answers"),
        (["a:b", "--only", "query-failz"], "no rule is called `query-failz`; did you mean `query-fails`?"),
        (["--url", "http://x", "--locust", "--longest-stall", "0"], "--longest-stall must be above 0, not 0"),
        (["a:b", "--slo", "none.toml"], "none.toml: cannot be read: No such file or directory"),
        (["a:b", "--queries", "none.jsonl"], "there is no file none.jsonl"),
        (["a:b", "--sbs-key", "key.json"], "--sbs-key and --sbs-answers belong together"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in told(capsys, "load", *arguments)


def test_a_broken_query_is_told_with_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "q.jsonl").write_text('{"input": 1}\n{"input": \n', encoding="utf-8")
    assert "q.jsonl:2: not JSON: Expecting value" in told(capsys, "load", "a:b", "--queries", "q.jsonl")


def test_an_entry_point_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "service.py").write_text(SERVICE, encoding="utf-8")
    (folder / "q.jsonl").write_text('{"input": {"x": 1}}\n', encoding="utf-8")
    sentence = told(capsys, "load", "service:predikt", "--queries", "q.jsonl")
    assert re.search(r"there is no `predikt` in .*service\.py; did you mean `predict`\?", sentence)


def test_a_module_without_queries_or_example(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "service.py").write_text(SERVICE, encoding="utf-8")
    assert "there is nothing to ask: give --queries" in told(capsys, "load", "service:predict")


@pytest.mark.slow
def test_a_run_prints_writes_and_exits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "service.py").write_text(SERVICE, encoding="utf-8")
    (folder / "q.jsonl").write_text('{"input": {"x": 1}}\n{"input": {"x": 2}}\n', encoding="utf-8")
    (folder / "g.jsonl").write_text('{"id": "wrong", "input": {"x": 1}, "expect": 0}\n', encoding="utf-8")
    short = ["--workers", "1", "--duration", "0.5"]
    run = ["load", "service:predict", "--queries", "q.jsonl", "--golden", "g.jsonl", *short]
    assert main([*run, "--html", "r.html", "--json", "r.json"]) == 1
    printed = capsys.readouterr().out
    assert "case 'wrong' (g.jsonl:1): answer is 1, expected 0" in printed
    assert "<svg" in (folder / "r.html").read_text(encoding="utf-8")
    saved = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert saved["command"] == "load"
    assert {result["by"] for result in saved["results"]} == {"load"}
    asked = "mlcheck load service:predict --queries q.jsonl --golden g.jsonl --workers 1 --duration 0.5"
    again = f"{asked} --only golden-case-fails"
    assert again in (folder / "r.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main([*again.split()[1:], "--format", "json"]) == 1
    (only,) = json.loads(capsys.readouterr().out)["results"]
    assert (only["rule"], only["outcome"]) == ("golden-case-fails", "fail")
    assert main(["report", "r.json"]) == 1
    assert "case 'wrong'" in capsys.readouterr().out


def test_judgements_are_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sbs", "plan", "--win-rate", "0.55", "--ties", "0.2"]) == 0
    assert "820 items that are no ties, so 1,025 items with 20% ties" in capsys.readouterr().out
    assert "must be above 0.5" in told(capsys, "sbs", "plan", "--win-rate", "0.5")
    assert "such a small preference" in told(capsys, "sbs", "plan", "--win-rate", "0.5001")


def test_parts_of_a_command_show_how_they_are_typed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sbs", "read", "--help"])
    assert "usage: mlcheck sbs read [-h]" in capsys.readouterr().out


def test_a_sheet_is_made_judged_and_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [{"query": f"q{n}", "new": f"new {n}", "live": f"live {n}"} for n in range(20)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)), encoding="utf-8")
    assert main(["sbs", "make", "pairs.jsonl"]) == 0
    assert "wrote sheet.html for the raters, 20 items" in capsys.readouterr().out
    assert "sheet.html is there already" in told(capsys, "sbs", "make", "pairs.jsonl")
    sides = json.loads((folder / "key.json").read_text(encoding="utf-8"))["new_is"]
    other = {"left": "right", "right": "left"}
    rows = [f"{item},Ada,{side if n < 18 else other[side]}" for n, (item, side) in enumerate(sides.items())]
    (folder / "a.csv").write_text("\n".join(["item,rater,choice", *rows]), encoding="utf-8")
    assert main(["sbs", "read", "key.json", "a.csv"]) == 0
    assert "PASS  18 wins, 2 losses, 0 ties" in capsys.readouterr().out
    assert "there is no file" in told(capsys, "sbs", "make", "none.jsonl")
