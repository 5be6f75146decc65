"""Blind judgements: the sheet, its key, what raters said, and what it comes to."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mlcheck.load.queries import BadQueries
from mlcheck.load.sbs import BadJudgements, Judgement, Judgements, fleiss_kappa, preference, read_judgements
from mlcheck.load.sheet import Pair, make_sheet, read_pairs

PAIRS = [Pair(f"p{n}", f"query {n}", f"new answer {n}", f"live answer {n}") for n in range(41)]


def judgements(wins: int = 0, losses: int = 0, ties: int = 0, bad: int = 0) -> Judgements:
    """One rater; the new version stands left on every other item."""
    said = ["new"] * wins + ["live"] * losses + ["tie"] * ties + ["both-bad"] * bad
    found = []
    for number, preferred in enumerate(said):
        left = number % 2 == 0
        choice = preferred if preferred in ("tie", "both-bad") else "left" if (preferred == "new") == left else "right"
        found.append(Judgement(f"i{number}", "Ada", choice, left))
    return Judgements(tuple(found), len(found))


def test_the_sheet_is_blind_and_balanced_and_the_key_undoes_it() -> None:
    page, key = make_sheet(PAIRS, seed=3)
    sides = json.loads(key)["new_is"]
    assert abs(sum(side == "left" for side in sides.values()) - 20.5) < 1
    assert json.loads(key)["names"] != {f"i{n + 1}": f"p{n}" for n in range(41)}
    for item, side in sides.items():
        block = re.search(rf'<section id="{item}">.*?</section>', page, re.DOTALL)
        assert block
        first = re.search(r"<pre>(\w+) answer", block[0])
        assert first
        assert (first[1] == "new") is (side == "left")
    assert make_sheet(PAIRS, seed=3) == (page, key)
    assert make_sheet(PAIRS, seed=4)[1] != key


def test_nothing_in_the_sheet_tells_the_versions_apart() -> None:
    page, _ = make_sheet([Pair("a", "q", "one", "two")], seed=0)
    assert not re.search(r"\b(new|live|p\d+)\b", re.sub(r"<script>.*</script>", "", page, flags=re.DOTALL))


def test_answers_are_data_and_equal_ones_are_left_out() -> None:
    page, key = make_sheet([Pair("a", "<b>q</b>", "<script>x</script>", "&"), Pair("b", "q", "same", "same")], seed=0)
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page
    assert json.loads(key)["equal"] == ["b"]
    assert len(json.loads(key)["new_is"]) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"query": 1, "new": 2}', "p.jsonl:1: has no `live`"),
        ('{"query": 1, "new": 2, "live": 3, "old": 4}', "p.jsonl:1: unknown key `old`"),
        (
            '{"id": 1, "query": 1, "new": 2, "live": 3}\n{"id": 1, "query": 1, "new": 2, "live": 3}',
            "p.jsonl:2: the id '1'",
        ),
        ("", "p.jsonl: holds no pair"),
    ],
)
def test_pairs_that_cannot_be_read(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "p.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(BadQueries) as raised:
        read_pairs(tmp_path / "p.jsonl")
    assert told in str(raised.value)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    (tmp_path / "key.json").write_text('{"new_is": {"i1": "left", "i2": "right"}}', encoding="utf-8")
    return tmp_path / "key.json"


def test_what_raters_chose_is_turned_back(tmp_path: Path, key: Path) -> None:
    (tmp_path / "a.csv").write_text('item,rater,choice\ni1,"Ada, B.",left\ni2,"Ada, B.",left\n', encoding="utf-8")
    (tmp_path / "b.csv").write_text("rater,choice,item\nBob,Tie,i1\n", encoding="utf-8")
    found = read_judgements(key, [tmp_path / "a.csv", tmp_path / "b.csv"])
    assert [(one.item, one.rater, one.preferred) for one in found.judgements] == [
        ("i1", "Ada, B.", "new"),
        ("i2", "Ada, B.", "live"),
        ("i1", "Bob", "tie"),
    ]
    assert found.items == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("item,rater,choice\ni9,Ada,left\n", "a.csv:2: the item 'i9' is not in"),
        ("item,rater,choice\ni1,Ada,middle\n", "a.csv:2: `choice` must be one of left, right, tie, both-bad"),
        ("item,rater,choice\ni1,Ada,left\ni1,Ada,right\n", "a.csv:3: 'Ada' judges the item 'i1' a second time"),
        ("item,choice\ni1,left\n", "a.csv:1: has no column `rater`"),
        ("item,rater,choice\ni1,,left\n", "a.csv:2: item, rater and choice must all be filled in"),
        ("item,rater,choice\ni1,Ada\n", "a.csv:2: item, rater and choice must all be filled in"),
        ("item,rater,choice\n", "a.csv: holds no judgement"),
    ],
)
def test_answers_that_do_not_fit(tmp_path: Path, key: Path, text: str, told: str) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BadJudgements) as raised:
        read_judgements(key, [tmp_path / "a.csv"])
    assert told in str(raised.value)


def test_a_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(BadJudgements, match="is no key that `mlcheck sbs make` wrote"):
        read_judgements(tmp_path / "k.json", [])


def test_the_sign_test_decides_where_wilsons_interval_would_say_otherwise() -> None:
    found = preference(judgements(60, 40))
    assert found.p_value == pytest.approx(0.0569, abs=1e-4)
    assert found.rate.low == pytest.approx(0.502, abs=1e-3)


def test_ties_are_left_out_of_the_test_and_halved_in_the_share() -> None:
    found = preference(judgements(30, 10, ties=50, bad=10))
    assert (found.wins, found.losses, found.ties, found.both_bad) == (30, 10, 50, 10)
    assert found.rate.value == 0.75
    assert found.half == pytest.approx(0.6)
    assert found.left_p == 1.0
    assert found.agreement is None


def test_raters_who_click_left_are_seen() -> None:
    found = preference(Judgements(tuple(Judgement(f"i{n}", "Ada", "left", n % 2 == 0) for n in range(40)), 40))
    assert (found.wins, found.losses) == (20, 20)
    assert found.left_p < 1e-9


def test_several_raters_of_an_item_are_one_vote() -> None:
    said = {"a": ["left", "left", "right"], "b": ["right", "left"], "c": ["tie", "tie", "right"], "d": ["both-bad"] * 3}
    rows = [
        Judgement(item, f"r{n}", choice, True) for item, choices in said.items() for n, choice in enumerate(choices)
    ]
    found = preference(Judgements(tuple(rows), 5))
    assert (found.wins, found.losses, found.ties, found.both_bad) == (1, 1, 1, 1)
    assert found.raters == 3


def test_agreement_is_that_of_fleiss_own_example() -> None:
    """Ten items, fourteen raters, five categories: kappa 0.210 (Fleiss, 1971, as in the standard worked table)."""
    table = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    groups = [[str(kind) for kind, count in enumerate(row) for _ in range(count)] for row in table]
    assert fleiss_kappa(groups) == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa([["a"], ["b"]]) is None
    assert fleiss_kappa([["a", "a"]]) == 1.0
