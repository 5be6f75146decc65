"""What is saved can be read again, is valid JSON and fits its schema."""

import json as standard
import math
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result, UnreadableReport
from mlcheck.report import json

SCHEMA = standard.loads((files("mlcheck.report") / "schema" / "report-1.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)

# Undecodable bytes of a file name are lone low surrogates; a high one before a low one is no text at all.
text = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\udc80\udcff"), max_size=20)
number = st.floats(width=64) | st.integers(-(2**60), 2**60)
numbers = st.dictionaries(text, number, max_size=3)
count = st.integers(0, 10**6)
location = st.builds(Location, text, count, count, count, count, text)
cell = number | st.none() | text.filter(lambda word: word not in {"NaN", "Infinity", "-Infinity"})
series = st.fixed_dictionaries({"name": text, "y": st.lists(number | st.none(), max_size=4)})
reference = st.fixed_dictionaries({"name": text, "y": number})
DATA = {
    "curves": st.fixed_dictionaries({"series": st.lists(series, max_size=2), "lines": st.lists(reference, max_size=2)}),
    "bars": st.fixed_dictionaries({"labels": st.lists(text, max_size=3), "values": st.lists(number, max_size=3)}),
    "matrix": st.fixed_dictionaries(
        {
            "rows": st.lists(text, max_size=2),
            "columns": st.lists(text, max_size=2),
            "values": st.lists(st.lists(number | st.none(), max_size=2), max_size=2),
        }
    ),
    "table": st.fixed_dictionaries(
        {"columns": st.lists(text, max_size=2), "rows": st.lists(st.lists(cell, max_size=2), max_size=2)}
    ),
    "text": st.fixed_dictionaries({"text": text}),
}
figure = st.sampled_from(sorted(DATA)).flatmap(lambda kind: st.builds(Figure, st.just(kind), text, DATA[kind]))
finding = st.builds(Finding, text, location, text, numbers, st.lists(location, max_size=2).map(tuple))
result = st.builds(
    Result,
    rule=text,
    title=text,
    stage=st.sampled_from(Stage),
    severity=st.sampled_from(Severity),
    by=st.sampled_from(By),
    outcome=st.sampled_from(Outcome),
    summary=text,
    reason=text,
    findings=st.lists(finding, max_size=2).map(tuple),
    figures=st.lists(figure, max_size=2).map(tuple),
    numbers=numbers,
    looked_at=count,
    seconds=st.floats(width=64),
    traceback=text,
    explains=st.lists(text, max_size=2).map(tuple),
)
reports = st.builds(
    Report,
    command=text,
    subject=text,
    results=st.lists(result, max_size=3).map(tuple),
    environment=st.dictionaries(text, text, max_size=2),
    started=text,
    seconds=st.floats(width=64),
    notices=st.lists(text, max_size=2).map(tuple),
)


@given(reports)
def test_a_saved_report_is_read_back_as_it_was(report: Report) -> None:
    saved = json.render(report)
    assert repr(json.read(saved)) == repr(report)  # repr, because NaN is not equal to itself
    VALIDATOR.validate(standard.loads(saved, parse_constant=lambda name: pytest.fail(f"{name} is not JSON")))


def test_the_sample_fits_the_schema(report: Report) -> None:
    VALIDATOR.validate(standard.loads(json.render(report)))
    assert repr(json.read(json.render(report))) == repr(report)


def test_the_schema_is_one_and_refuses_what_is_not_a_report() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    good = standard.loads(json.render(Report("check", "s", ())))
    assert VALIDATOR.is_valid(good)
    assert not VALIDATOR.is_valid({**good, "schema": 2})
    assert not VALIDATOR.is_valid({**good, "seconds": "soon"})
    assert not VALIDATOR.is_valid({**good, "extra": 1})


def test_the_order_is_stable(report: Report) -> None:
    assert json.render(report) == json.render(json.read(json.render(report)))


def test_numpy_scalars_and_unknown_objects_do_not_lose_the_report(report: Report) -> None:
    np = pytest.importorskip("numpy")
    odd = replace(report.results[0], numbers={"a": np.float32(0.5), "b": np.int64(3), "c": np.float64("nan")})
    odd = replace(odd, figures=(Figure("table", "t", {"columns": ["x"], "rows": [[object]]}),))
    back = json.read(json.render(replace(report, results=(odd,)))).results[0]
    assert (back.numbers["a"], back.numbers["b"]) == (0.5, 3)
    assert math.isnan(back.numbers["c"])


@pytest.mark.parametrize("spoil", ["", "{", "[]", "null", "3", '"schema"', "[" * 100_000, "{}", '{"schema": 1}'])
def test_what_is_no_report_is_told_in_one_sentence(spoil: Any) -> None:
    with pytest.raises(UnreadableReport) as caught:
        json.read(spoil)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("summary", 5, "results[0].summary"),
        ("numbers", {"a": "many"}, "results[0].numbers.a"),
        ("looked_at", 1.5, "results[0].looked_at"),
        ("outcome", "maybe", "maybe"),
        ("findings", [3], "damaged"),
        ("figures", [{"kind": "bars"}], "damaged"),
        ("figures", [{"kind": "bars", "title": "t", "data": []}], "damaged"),
        ("explains", [["x"]], "results[0].explains[0]"),
    ],
)
def test_a_damaged_report_says_where(report: Report, place: Any, value: Any, told: str) -> None:
    data = standard.loads(json.render(report))
    data["results"][0][place] = value
    with pytest.raises(UnreadableReport) as caught:
        json.read(standard.dumps(data))
    assert told in str(caught.value)
