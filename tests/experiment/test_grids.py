"""The runner's grids take part in what lint has, and other programs' YAML is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlcheck.cli import main

GRID = """\
template:
  train: python train.py {data} [lr]
default: {data: cifar, lr: 0.1}
resource: [0, 1]
---
_cmd: [tran]
lr: [0.1, 0.2]
"""
Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("grid.yaml", GRID)


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def found(capsys: Out, *arguments: str) -> list[tuple[str, int, int]]:
    capsys.readouterr()
    main(["lint", "--format", "json", *arguments])
    results = json.loads(capsys.readouterr().out)["results"]
    return [
        (result["rule"], one["location"]["line"], one["location"]["column"])
        for result in results
        for one in result["findings"]
    ]


UNKNOWN = [("grid-command-unknown", 6, 8)]


def test_a_grid_is_found_in_a_folder_and_by_name(capsys: Out) -> None:
    assert found(capsys) == found(capsys, "grid.yaml") == UNKNOWN


def test_a_grid_and_an_experiment_are_judged_by_their_own_rules(capsys: Out) -> None:
    write("experiment.yaml", "entrypoint: a:B\nhyperparameters: {}\nsearcher: {name: single, metric: x}\nfoo: 1\n")
    assert found(capsys) == [*UNKNOWN, ("invalid-experiment-config", 4, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "template:\n  a: b\nresource: [1]\n",
        "template: {spec: {x: 1}}\ndefault: {}\n",
        "template:\n  a: run {x}\nresource: [1]\nkind: Pod\n",
        "template:\n  - a\nresource: [1]\n",
        "template: {{ x }}\nresource: [1]\n",
        "template:\n  a: run {x}\n  b: [1, 2\nresource: [1]\n",
        "",
    ],
)
def test_other_templates_are_left_alone(text: str, capsys: Out) -> None:
    write("grid.yaml", text)
    assert found(capsys) == []
    main(["lint"])
    assert "grid.yaml" not in capsys.readouterr().err


SOUND = """\
template:
  train: python train.py --data {data} [lr] --save {_output}
default: {data: cifar}
resource: [0, 1]
---
lr: [0.1, 0.2]
"""


def test_a_grid_beyond_doubt_that_is_no_yaml_is_told(capsys: Out) -> None:
    write("grid.yaml", SOUND.replace("default: {data: cifar}", "default:\n\tdata: cifar"))
    assert found(capsys) == [("invalid-grid", 4, 1)]
    assert found(capsys, "--select", "invalid-experiment-config") == []


@pytest.mark.parametrize(
    ("known", "written"),
    [("template", "templates"), ("template", "tempalte"), ("default", "defaults"), ("resource", "ressource")],
)
def test_a_misspelt_key_of_a_grid_is_all_that_is_told(known: str, written: str, capsys: Out) -> None:
    write("grid.yaml", SOUND.replace(f"{known}:", f"{written}:"))
    assert [rule for rule, *_ in found(capsys)] == ["invalid-grid"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("{_output}", "{output}"), ("---\n", ""), ("default", "owner: me\ndefault")],
)
def test_a_misspelt_key_of_what_may_be_another_program_s_is_left_alone(old: str, new: str, capsys: Out) -> None:
    write("grid.yaml", SOUND.replace("template:", "templates:").replace(old, new))
    assert found(capsys) == []


PARSER = """\
import argparse

parser = argparse.ArgumentParser()
group = parser.add_argument_group("all")
group.add_argument("-d", "--data")
group.add_argument("--lr", type=int)
parser.add_argument("--save")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("type=int", "type=float"),
        ("type=int", "type=int, nargs=2"),
        ("type=int", "type=lambda text: text"),
        ("args = ", "extend(parser)\nargs = "),
        ("args = ", "more = parser.add_subparsers()\nargs = "),
        ("args = parser.parse_args()", "args, _ = parser.parse_known_args()"),
        ("ArgumentParser()", "ArgumentParser(parents=[common])"),
        ("args = ", "for one in names:\n    parser.add_argument(one)\nargs = "),
        ("args = ", "args = parser.parse_args(\n"),
    ],
)
def test_what_a_script_may_take_all_the_same_is_not_told(old: str, new: str, capsys: Out) -> None:
    write("grid.yaml", SOUND)
    write("train.py", PARSER)
    refused = [("grid-arguments-refused", 6, 6), ("grid-arguments-refused", 6, 11)]
    assert [one for one in found(capsys) if one[0].startswith("grid")] == refused
    write("train.py", PARSER.replace(old, new))
    assert [one for one in found(capsys) if one[0].startswith("grid")] == []


def test_a_grid_that_was_named_and_is_none_is_told(capsys: Out) -> None:
    write("grid.yaml", "template:\n  a: b\nresource: [1]\n")
    main(["lint", "grid.yaml"])
    told = capsys.readouterr()
    assert "so it was not checked" in told.out + told.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--ignore", "grid-command-unknown"),
        ("--select", "missing-zero-grad"),
        ("--select", "grid-parameter-orphan"),
    ],
)
def test_rules_of_grids_are_chosen(arguments: tuple[str, ...], capsys: Out) -> None:
    assert found(capsys, *arguments) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--select", "grid-command-unknown"),
        ("--select", "missing-zero-grad", "--extend-select", "grid-command-unknown"),
        ("--select", "launch"),
    ],
)
def test_rules_of_grids_are_chosen_by_name_and_stage(arguments: tuple[str, ...], capsys: Out) -> None:
    assert found(capsys, *arguments) == UNKNOWN


def test_files_are_left_out_by_pattern(capsys: Out) -> None:
    write("pyproject.toml", '[tool.mlcheck.per-file-ignores]\n"*.yaml" = ["grid-command-unknown"]\n')
    assert found(capsys) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_cmd: [tran]", "_cmd: [tran]  # mlcheck: ignore[grid-command-unknown] it comes later"),
        ("_cmd: [tran]", "# mlcheck: ignore[grid-command-unknown] it comes later\n_cmd: [tran]"),
        ("template:", "# mlcheck: ignore-file\ntemplate:"),
    ],
)
def test_a_comment_answers_a_finding(old: str, new: str, capsys: Out) -> None:
    write("grid.yaml", GRID.replace(old, new))
    assert found(capsys) == []


def test_a_comment_that_hides_nothing_is_told(capsys: Out) -> None:
    write("grid.yaml", GRID.replace("resource", "# mlcheck: ignore[grid-resource-repeated] once\nresource"))
    main(["lint"])
    told = capsys.readouterr()
    assert "hides nothing" in " ".join((told.out + told.err).split())


def test_a_baseline_knows_what_moved(capsys: Out) -> None:
    main(["lint", "--write-baseline"])
    write("grid.yaml", "# one line more\n" + GRID)
    assert found(capsys) == []
    write("grid.yaml", GRID + "---\n_cmd: tests\n")
    assert found(capsys) == [("grid-command-unknown", 9, 7)]


def test_every_format_names_the_place(capsys: Out) -> None:
    for form, place in [
        ("concise", "grid.yaml:6:8: error[grid-command-unknown]"),
        ("github", "file=grid.yaml,line=6"),
        ("sarif", '"startLine": 6'),
        ("gitlab", '"grid.yaml"'),
        ("junit", "grid-command-unknown"),
    ]:
        capsys.readouterr()
        assert main(["lint", "--format", form]) == 1
        assert place in capsys.readouterr().out


def test_a_second_run_from_the_cache_tells_the_same(capsys: Out) -> None:
    write("train.py", "x = 1\n")
    assert found(capsys, "--cache-dir", "cache") == found(capsys, "--cache-dir", "cache") == UNKNOWN
    write("grid.yaml", GRID.replace("tran]", "train]"))
    assert found(capsys, "--cache-dir", "cache") == []


def test_a_hook_beside_two_configs_is_told_once_and_answered_in_its_own_file(capsys: Out) -> None:
    config = "entrypoint: a:B\nhyperparameters: {}\nsearcher: {name: single, metric: x}\n"
    for name in ("one.yaml", "two.yaml"):
        write(name, config)
    write("startup-hook.sh", "pip install timm\n")
    rule = "unpinned-startup-install"
    assert found(capsys, "--select", rule) == [(rule, 1, 1)]
    write("startup-hook.sh", f"pip install timm  # mlcheck: ignore[{rule}] any will do\n")
    assert found(capsys, "--select", rule) == []
