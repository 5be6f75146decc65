"""Numbers that a team sets for a rule: what a page declares, and the one sentence that a wrong table is told."""

from typing import Any

import pytest

from mlcheck.core.catalog import Catalog, UnknownRule
from mlcheck.core.options import BadOption, Option, checked, declared, joined

LAYERS, WHERE = "layer-outweighs-model", "pyproject.toml"


def test_what_a_page_declares_is_read() -> None:
    table = {"share": {"default": 0.5, "least": 0.0, "most": 1.0, "meaning": "how much"}}
    assert declared(table) == (Option("share", 0.5, 0.0, 1.0, "how much"),)
    assert not declared(table)[0].whole


@pytest.mark.parametrize("fault", [{"default": 2.0}, {"default": True}, {"default": "1"}])
def test_a_default_must_be_in_its_range(fault: Any) -> None:
    with pytest.raises(ValueError, match="`share`"):
        declared({"share": {"default": 0.5, "least": 0.0, "most": 1.0, "meaning": "how much", **fault}})


@pytest.mark.parametrize("missing", ["default", "least", "most", "meaning"])
def test_an_option_says_all_there_is_to_know(missing: Any) -> None:
    table = {"default": 0.5, "least": 0.0, "most": 1.0, "meaning": "how much"}
    del table[missing]
    with pytest.raises(KeyError, match=missing):
        declared({"share": table})


def test_what_is_set_has_the_type_of_its_default() -> None:
    found = checked({LAYERS: {"share": 1, "steps": 2000}}, Catalog(), WHERE)
    assert found == {LAYERS: {"share": 1.0, "steps": 2000}}
    assert {name: type(value) for name, value in found[LAYERS].items()} == {"share": float, "steps": int}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"batch-mixing": {"share": 1}}, "[tool.mlcheck.options.batch-mixing]: this rule has no options"),
        ({LAYERS: 0.5}, "write it as a table, share = 0.8"),
        ({LAYERS: {"shar": 0.5}}, "no option `shar`; it has `share`, `steps`"),
        ({LAYERS: {"share": 1.5}}, "`share` is a number from 0.1 to 1, not 1.5"),
        ({LAYERS: {"share": float("nan")}}, "`share` is a number from 0.1 to 1, not nan"),
        ({LAYERS: {"share": "0.5"}}, "`share` is a number from 0.1 to 1, not '0.5'"),
        ({LAYERS: {"share": True}}, "`share` is a number from 0.1 to 1, not True"),
        ({LAYERS: {"steps": 1000.0}}, "`steps` is a whole number from 10 to 1,000,000, not 1000.0"),
    ],
)
def test_a_wrong_table_is_one_sentence(table: Any, told: str) -> None:
    with pytest.raises(BadOption) as caught:
        checked(table, Catalog(), WHERE)
    assert str(caught.value).startswith("pyproject.toml: [tool.mlcheck.options.")
    assert told in str(caught.value)


def test_an_unknown_rule_is_told_with_its_neighbour() -> None:
    with pytest.raises(UnknownRule, match="did you mean `layer-outweighs-model`"):
        checked({"layer-outweigh-model": {"share": 0.5}}, Catalog(), WHERE)


def test_options_that_stand_in_no_file_are_an_argument() -> None:
    with pytest.raises(BadOption, match=r'^options\["layer-outweighs-model"\]: no option `shar`'):
        checked({LAYERS: {"shar": 0.5}}, Catalog())
    with pytest.raises(BadOption, match=r"^options: write a table of options for each rule"):
        checked([LAYERS], Catalog())


def test_the_later_of_two_tables_has_the_last_word_on_each_number() -> None:
    assert joined({"a": {"x": 1, "y": 2}, "b": {"z": 3}}, {"a": {"y": 4}}) == {"a": {"x": 1, "y": 4}, "b": {"z": 3}}
