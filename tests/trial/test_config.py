"""The experiment YAML: YAML 1.2 scalars, one value per hyperparameter, clear sentences."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlcheck.trial.config import Hyperparameters, hyperparameters, read_config
from mlcheck.trial.trial import EntryError


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "experiment.yaml"
    path.write_text(text, encoding="utf-8")
    return read_config(path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E3", 1000.0),
        ("-2.5e+2", -250.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("50_000", 50000),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        (".inf", float("inf")),
        ("2024-01-01", "2024-01-01"),
        ("None", "None"),
        ("'1e-4'", "1e-4"),
        ("1.2.3", "1.2.3"),
        ("0.24.0", "0.24.0"),
        ("e5", "e5"),
    ],
)
def test_scalars_are_read_as_determined_reads_them(tmp_path: Path, text: str, value: object) -> None:
    read_value = read(tmp_path, f"x: {text}")["x"]
    assert read_value == value
    assert type(read_value) is type(value)


def test_anchors_and_merges(tmp_path: Path) -> None:
    config = read(tmp_path, "base: &b {a: 1, b: 2}\nx: {<<: *b, b: 3}")
    assert config["x"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", r"is not valid YAML: line 1: "),
        ("a: b: c", r"is not valid YAML: line 1: "),
        ("- a\n- b", "must hold a mapping of settings, not a list"),
        ("just words", "not a text"),
        ("", "not nothing"),
        ("# nothing yet", "not nothing"),
        ("template: {lr: 1}\n---\nlr: [1, 2]", "holds several documents, as a grid does"),
        ("x: !!python/object/apply:os.getcwd []", "is not valid YAML"),
        ("x: \x07", "is not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EntryError, match=message) as caught:
        read(tmp_path, text)
    assert "experiment.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EntryError, match=r"there is no config file .*none\.yaml"):
        read_config(tmp_path / "none.yaml")
    with pytest.raises(EntryError, match="cannot be read"):
        read_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(EntryError, match="cannot be read"):
        read_config(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (3, 3),
        ([1, 2], [1, 2]),
        ({"type": "const", "val": {"a": 1}}, {"a": 1}),
        ({"type": "categorical", "vals": ["sgd", "adam"]}, "sgd"),
        ({"type": "int", "minval": 2, "maxval": 9}, 5),
        ({"type": "double", "minval": 0.0, "maxval": 0.5}, 0.25),
        ({"type": "log", "base": 10, "minval": -4, "maxval": -2}, pytest.approx(1e-3)),
        ({"type": "log", "base": 2, "minval": 0, "maxval": 3}, pytest.approx(2**1.5)),
        ({"optimizer": {"lr": {"type": "const", "val": 1}}}, {"optimizer": {"lr": 1}}),
    ],
)
def test_a_range_gives_its_representative(declared: object, value: object) -> None:
    assert hyperparameters({"hyperparameters": {"x": declared}}, {}, "e.yaml")["x"] == value


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "const"},
        {"type": "categorical", "vals": []},
        {"type": "int", "minval": 1},
        {"type": "double", "minval": "a", "maxval": "b"},
        {"type": "uniform"},
    ],
)
def test_a_range_that_cannot_be_read(declared: dict[str, Any]) -> None:
    with pytest.raises(EntryError, match=r"`a\.b` in e\.yaml cannot be read"):
        hyperparameters({"hyperparameters": {"a": {"b": declared}}}, {}, "e.yaml")


def test_overrides_win_and_may_add() -> None:
    config = {"hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}, "opt": {"a": 1}}}
    values = hyperparameters(config, {"lr": 7, "opt.a": 2, "opt.b": 3, "new.deep.x": 4}, "e.yaml")
    assert values == {"lr": 7, "opt": {"a": 2, "b": 3}, "new": {"deep": {"x": 4}}}
    with pytest.raises(EntryError, match="`lr` is a value, not a group"):
        hyperparameters(config, {"lr.x": 1}, "e.yaml")


def test_hyperparameters_must_be_a_mapping() -> None:
    with pytest.raises(EntryError, match=r"`hyperparameters` in e\.yaml must be a mapping"):
        hyperparameters({"hyperparameters": ["lr"]}, {}, "e.yaml")
    assert hyperparameters({"hyperparameters": None}, {}, "e.yaml") == {}


def test_the_mapping_survives_what_programs_do_with_it() -> None:
    values = hyperparameters({"hyperparameters": {"a": {"b": 1}}}, {}, "e.yaml")
    for copied in (copy.deepcopy(values), pickle.loads(pickle.dumps(values)), copy.copy(values)):
        assert copied == {"a": {"b": 1}}
        assert isinstance(copied, Hyperparameters)
        with pytest.raises(EntryError, match="`c`"):
            copied["c"]
    assert yaml.safe_load(yaml.safe_dump(values)) == {"a": {"b": 1}}
    assert values.get("c", 5) == 5
    assert "c" not in values
    assert dict(**values) == values
