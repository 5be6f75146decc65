"""Figures: sound markup whatever the numbers, and nothing drawn that is not there."""

import math
import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcheck.core.finding import Figure
from mlcheck.report.figures import draw
from mlcheck.report.svg import Scale, linear_ticks, log_ticks

number = st.floats() | st.none() | st.integers()


def drawn(kind: str, data: object) -> ElementTree.Element:
    """The figure parsed as XML: sound nesting, no stray entity. Coordinates must be finite."""
    source = draw(Figure(kind, "A title", data)).replace("<img ", "<img/><i ").replace('"><span>', '"/><span>')
    assert not re.search(r'"-?(nan|inf)', source)
    return ElementTree.fromstring(source)


def texts(element: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in element.iter("text")]


def series(*values: float, name: str = "loss") -> dict[str, object]:
    return {"series": [{"name": name, "y": list(values)}]}


def test_a_curve_is_labelled_at_its_end_and_described() -> None:
    figure = drawn("curves", {**series(2.3, 1.1, 0.5), "x_label": "step", "lines": [{"name": "ln 10", "y": 2.3026}]})
    assert {"loss", "step", "ln 10 = 2.303"} <= set(texts(figure))
    svg = figure.find("svg")
    assert svg.get("role") == "img"
    assert svg.find("title").text == "A title"
    assert "loss from 2.3 to 0.5" in svg.find("desc").text


def test_a_gap_is_left_and_marked_where_a_value_is_not_finite() -> None:
    figure = drawn("curves", series(1.0, 2.0, math.nan, math.nan, 3.0, 2.5))
    assert len(list(figure.iter("polyline"))) == 2
    assert len([path for path in figure.iter("path") if "--fail" in path.get("stroke")]) == 1
    assert "2 values not drawable" in figure.find("svg/desc").text


def test_infinity_is_marked_at_the_top_and_nan_at_the_bottom() -> None:
    def height(value: float) -> float:
        (mark,) = drawn("curves", series(1.0, value, 2.0)).iter("path")
        return float(re.match(r"M\S+ (\S+?)l", mark.get("d"))[1])

    assert height(math.inf) < height(math.nan)


def test_a_log_scale_does_not_draw_what_is_not_positive() -> None:
    figure = drawn("curves", {**series(1.0, 0.0, 0.1), "log_y": True})
    assert len(list(figure.iter("circle"))) == 2
    assert "1 value not drawable" in figure.find("svg/desc").text


def test_marks_stand_upright_where_they_belong_on_a_log_axis() -> None:
    marks = [{"name": "yours", "x": 0.01}, {"name": "far", "x": 9.0}, {"name": "none", "x": math.nan}]
    line = {"name": "loss", "x": [0.001, 0.1], "y": [2.0, 1.0]}
    data = {"series": [line], "log_x": True, "x_label": "rate", "marks": marks}
    figure = drawn("curves", data)
    assert {"yours", "rate (log)"} <= set(texts(figure))
    assert not {"far", "none"} & set(texts(figure))
    upright = [one for one in figure.iter("line") if one.get("x1") == one.get("x2") and one.get("stroke-dasharray")]
    (mark,) = upright
    (curve,) = figure.iter("polyline")
    first, last = (float(point.split(",")[0]) for point in curve.get("points").split())
    assert abs(float(mark.get("x1")) - (first + last) / 2) < 0.2


def test_a_huge_series_is_thinned_and_keeps_its_spike() -> None:
    values = [1.0] * 200_000
    values[77_777] = 50.0
    source = draw(Figure("curves", "t", series(*values)))
    assert len(source) < 12_000
    ys = [float(pair.split(",")[1]) for pair in re.search(r'points="([^"]+)"', source)[1].split()]
    assert min(ys) < min(ys[0], ys[-1]) - 100


def test_labels_of_lines_that_end_together_do_not_touch() -> None:
    data = {"series": [{"name": f"layer {n}", "y": [1.0, 1.0 + n * 1e-6]} for n in range(8)]}
    spots = sorted(float(node.get("y")) for node in drawn("curves", data).iter("text") if "layer" in (node.text or ""))
    assert len(spots) == 8
    assert min(b - a for a, b in pairwise(spots)) >= 12.9


def test_a_number_too_large_for_a_scale_is_told_not_drawn() -> None:
    figure = drawn("bars", {"labels": ["a", "b"], "values": [1.7e308, 2.0]})
    assert "1.7e+308" in texts(figure)
    assert len(list(figure.iter("rect"))) == 1


def test_bars_carry_their_numbers_and_mark_what_is_none() -> None:
    figure = drawn("bars", {"labels": ["a", "b", "c"], "values": [3.0, -1.5, math.nan], "unit": "ms"})
    assert {"a", "b", "c", "3", "-1.5", "NaN", "ms"} <= set(texts(figure))
    assert len(list(figure.iter("rect"))) == 2


def test_a_matrix_has_a_cell_a_number_and_a_scale() -> None:
    figure = drawn("matrix", {"rows": ["x", "y"], "columns": ["p", "q"], "values": [[4, -2], [None, math.nan]]})
    told = texts(figure)
    assert {"x", "y", "p", "q", "4", "-2", "-4"} <= set(told)
    assert told.count("×") == 2


def test_large_figures_are_cut_and_say_so() -> None:
    bars = {"labels": [str(n) for n in range(500)], "values": [1.0] * 500}
    assert "460 more not drawn" in texts(drawn("bars", bars))
    matrix = {"rows": ["r"] * 300, "columns": ["c"] * 300, "values": [[1.0] * 300] * 300}
    assert "the first 48 rows and columns" in texts(drawn("matrix", matrix))
    table = draw(Figure("table", "t", {"columns": ["c"], "rows": [[1]] * 150}))
    assert "50 more rows left out" in table


def test_a_table_aligns_numbers_and_shows_nan() -> None:
    source = draw(Figure("table", "t", {"columns": ["name", "mean"], "rows": [["x", math.nan], [None, 0.123456]]}))
    assert '<td class="number">NaN</td>' in source
    assert '<td class="number">0.1235</td>' in source


@pytest.mark.parametrize("png", ["javascript:alert(1)", '" onerror="x', "", "data:text/html;base64,AAAA"])
def test_only_base64_becomes_a_picture(png: str) -> None:
    source = draw(Figure("images", "t", {"tiles": [{"png": png, "caption": "c"}]}))
    assert "<img" not in source
    assert "not a picture" in source


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("curves", {}),
        ("curves", {"series": [{"name": "x"}]}),
        ("curves", {"series": 3}),
        ("bars", {"labels": 3, "values": []}),
        ("matrix", {"rows": [], "columns": [], "values": [1]}),
        ("images", {"tiles": [{}]}),
        ("table", {"columns": [], "rows": [3]}),
        ("text", {"text": 3}),
        ("hologram", {}),
    ],
)
def test_data_of_another_form_becomes_a_sentence(kind: str, data: Any) -> None:
    assert "This figure could not be drawn" in draw(Figure(kind, "t", data))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("curves", {"series": []}),
        ("curves", {"series": [{"name": "x", "y": []}], "log_y": True}),
        ("curves", {"series": [{"name": "x", "y": [0.0, 0.0]}], "log_y": True}),
        ("bars", {"labels": [], "values": []}),
        ("matrix", {"rows": [], "columns": [], "values": []}),
        ("images", {"tiles": []}),
        ("table", {"columns": [], "rows": []}),
        ("text", {"text": ""}),
    ],
)
def test_nothing_to_draw_is_drawn_as_nothing(kind: str, data: Any) -> None:
    assert "could not be drawn" not in draw(Figure(kind, "t", data))


@given(st.lists(number, max_size=12), st.lists(number, max_size=12), st.booleans())
def test_curves_of_any_numbers_are_sound(first: Any, second: Any, log: bool) -> None:
    drawn("curves", {"series": [{"name": "a", "y": first}, {"name": "b", "y": second}], "log_y": log})


@given(st.lists(number, max_size=12))
def test_bars_of_any_numbers_are_sound(values: Any) -> None:
    drawn("bars", {"labels": [str(n) for n in range(len(values))], "values": values})


@given(st.lists(st.lists(number, max_size=5), max_size=5))
def test_matrices_of_any_numbers_are_sound(values: Any) -> None:
    drawn("matrix", {"rows": ["r"] * len(values), "columns": ["c"] * 5, "values": values})


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_and_inside(low: float, extent: float) -> None:
    ticks = linear_ticks(low, low + extent)
    assert len(ticks) <= 12
    slack = 1e-6 * extent + 1e-12 * abs(low)  # what floats near `low` can tell apart
    assert all(low - slack <= tick <= low + extent + slack for tick in ticks)


def test_ticks_of_a_log_scale() -> None:
    assert log_ticks(0.5, 2000.0) == [1.0, 10.0, 100.0, 1000.0]
    assert log_ticks(1.1, 9.0) == [2.0, 5.0]
    assert len(log_ticks(1e-40, 1e40)) <= 8


def test_a_scale_maps_its_ends() -> None:
    assert Scale(1.0, 100.0, 0.0, 10.0, log=True)(10.0) == pytest.approx(5.0)
    assert Scale(-1.0, 1.0, 10.0, 0.0)(1.0) == 0.0


def test_few_points_are_seen_and_whole_numbers_have_whole_ticks() -> None:
    shown = draw(Figure("curves", "by layer", {"series": [{"name": "rms", "y": [1.0, 2.0, 4.0]}], "x_label": "layer"}))
    assert shown.count("<circle") == 3
    assert ">0.5<" not in shown
    assert re.findall(r'y="226.0"[^>]*>([^<]*)<', shown) == ["0", "1", "2"]
    many = draw(Figure("curves", "by step", {"series": [{"name": "loss", "y": [float(i) for i in range(40)]}]}))
    assert "<circle" not in many
