"""The SLO file: defaults, the templates, and one sentence with file and line for what is wrong."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from mlcheck.load.golden import read_golden
from mlcheck.load.limits import BadLimits, Limits, read_limits
from mlcheck.load.queries import read_queries

TEMPLATES = Path(str(files("mlcheck.load").joinpath("templates")))


def read(folder: Path, text: str) -> Limits:
    path = folder / "slo.toml"
    path.write_text(text, encoding="utf-8")
    return read_limits(path)


def test_an_empty_file_states_no_limit(tmp_path: Path) -> None:
    found = read(tmp_path, "")
    assert found == Limits()
    assert found.latency.random.p99_ms is None
    assert found.load.workers == (1, 2, 4, 8, 16)


def test_tables_inline_tables_and_dotted_keys_say_the_same(tmp_path: Path) -> None:
    first = read(tmp_path, "[latency.random]\np99_ms = 50\n[load]\nworkers = [4, 1, 4]\n")
    second = read(tmp_path, "latency = {random = {p99_ms = 50.0}}\nload.workers = [1, 4]\n")
    assert first == second
    assert first.latency.random.p99_ms == 50
    assert first.load.workers == (1, 4)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[load\n", "slo.toml: not valid TOML"),
        ("[lode]\nx = 1\n", "slo.toml:1: unknown key `lode`; did you mean `load`?"),
        ("[latency.random]\n\np98_ms = 3\n", "slo.toml:3: unknown key `latency.random.p98_ms`; did you mean `p99"),
        ("[load]\nworkers = 4\n", "slo.toml:2: `load.workers` must be a list of whole numbers above 0"),
        ("[load]\nworkers = [0, 1]\n", "slo.toml:2: `load.workers` must be a list of whole numbers above 0"),
        ("[load]\nrate_qps = true\n", "slo.toml:2: `load.rate_qps` must be a number, not True"),
        ("[load]\nrate_qps = nan\n", "slo.toml:2: `load.rate_qps` must be a number, not nan"),
        ("[load]\nthreads = 1.5\n", "slo.toml:2: `load.threads` must be a whole number, not 1.5"),
        ("[load]\nduration_s = 0\n", "slo.toml:2: `load.duration_s` must lie between 0 and inf, not 0"),
        ("[load]\nconfidence = 1\n", "slo.toml:2: `load.confidence` must lie between 0 and 1, not 1"),
        ("[quality]\naccuracy_min = 92\n", "slo.toml:2: `quality.accuracy_min` must lie between 0 and 1, not 92"),
        ("[cases]\nrepeatable = 1\n", "slo.toml:2: `cases.repeatable` must be true or false, not 1"),
        ('[cases]\nignore = "took_ms"\n', "slo.toml:2: `cases.ignore` must be a list of texts"),
        ("memory = 3\n", "slo.toml:1: `memory` must be a table, like [memory]"),
        ("[errors]\nmax_rate = -0.1\n", "slo.toml:2: `errors.max_rate` must lie between 0 and 1, not -0.1"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadLimits) as raised:
        read(tmp_path, text)
    assert told in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadLimits, match="cannot be read: No such file"):
        read_limits(tmp_path / "none.toml")


def test_the_templates_are_files_that_can_be_read() -> None:
    assert read_limits(TEMPLATES / "slo.toml").latency.complex.p99_ms == 120
    assert len(read_queries(TEMPLATES / "random.jsonl")) == 2
    assert len(read_queries(TEMPLATES / "complex.jsonl")) == 1
    assert len(read_queries(TEMPLATES / "labelled.jsonl", ("label",))) == 2
    assert [case.given.get("raises") for case in read_golden(TEMPLATES / "golden.jsonl")] == [None, "ValueError"]
