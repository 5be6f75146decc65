"""Query files: what is read, and one sentence with file and line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlcheck.load.golden import read_golden
from mlcheck.load.queries import BadQueries, read_log, read_queries


def write(folder: Path, text: str, name: str = "q.jsonl") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def complaint(path: Path, read: object = read_queries) -> str:
    assert callable(read)
    with pytest.raises(BadQueries) as raised:
        read(path)
    return str(raised.value).replace(str(path.parent), "HERE")


def test_comments_and_blank_lines_are_left_out_and_keep_their_number(tmp_path: Path) -> None:
    found = read_queries(write(tmp_path, '# queries\n\n{"input": 1}\n{"input": {"a": 2}, "id": "two", "label": "x"}\n'))
    assert [query.input for query in found] == [1, {"a": 2}]
    assert found[0].name == f"{tmp_path}/q.jsonl:3"
    assert (found[1].name, found[1].source, found[1].given["label"]) == ("two", f"{tmp_path}/q.jsonl:4", "x")


def test_a_broken_line_far_below_is_named(tmp_path: Path) -> None:
    lines = [json.dumps({"input": number}) for number in range(20_000)]
    lines[12_344] = '{"input": 12344'
    assert complaint(write(tmp_path, "\n".join(lines))) == (
        "HERE/q.jsonl:12345: not JSON: Expecting ',' delimiter at column 16"
    )


def test_a_log_with_a_broken_line_is_read_without_it(tmp_path: Path) -> None:
    lines = [json.dumps({"input": number}) for number in range(20_000)]
    lines[12_344] = '{"input": 12344'
    log = read_log(write(tmp_path, "\n".join(lines)))
    assert [query.input for query in log.queries] == [n for n in range(20_000) if n != 12_344]
    assert log.broken == (f"{tmp_path}/q.jsonl:12345: not JSON: Expecting ',' delimiter at column 16",)


def test_a_file_with_many_broken_lines_is_no_log(tmp_path: Path) -> None:
    lines = ['{"input": 1}'] * 98 + ["{", '{"inputs": 2}']
    told = complaint(write(tmp_path, "\n".join(lines)), read_log)
    assert told.startswith("HERE/q.jsonl:99: not JSON: ")
    assert told.endswith(" (and 1 more broken lines)")
    table = complaint(write(tmp_path, "a,b\n1,2\n3\n", "q.csv"), read_log)
    assert table == "HERE/q.csv:3: has 1 cell and the header 2"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"input": "cut off', "not JSON: Unterminated string starting at column 11"),
        ("[1, 2]", 'must be an object like {"input": ...}, not [1, 2]'),
        ('{"inputs": 1}', "unknown key `inputs`; did you mean `input`?"),
        ('{"input": 1, "colour": 2}', "unknown key `colour`; a line holds input, input_file, id, label, group, "),
        ('{"id": "a"}', "must have one of `input` and `input_file`"),
        ('{"input": 1, "input_file": "x"}', "must have one of `input` and `input_file`"),
        ('{"input": 1, "frequency": 0}', "`frequency` must be a number above 0, not 0"),
        ('{"input": 1, "frequency": true}', "`frequency` must be a number above 0, not true"),
        ('{"input_file": "gone.png"}', "`input_file` HERE/gone.png cannot be read: No such file or directory"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_wrong_line_is_one_sentence(tmp_path: Path, line: str, told: str) -> None:
    found = complaint(write(tmp_path, f"# first\n{line}\n"))
    assert found.startswith("HERE/q.jsonl:2: ")
    assert told in found or (told.startswith("nested") and "not JSON" in found)


def test_files_that_are_no_text_missing_or_empty(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b'{"input": 1}\n{"input": "caf\xe9"}\n')
    assert complaint(tmp_path / "latin.jsonl") == "HERE/latin.jsonl:2: not UTF-8 at byte 27"
    assert complaint(tmp_path / "latn.jsonl") == "there is no file HERE/latn.jsonl; did you mean HERE/latin.jsonl?"
    assert complaint(write(tmp_path, "# nothing\n")).startswith("HERE/q.jsonl: holds no query")


def test_a_label_that_is_needed(tmp_path: Path) -> None:
    path = write(tmp_path, '{"input": 1, "label": 0}\n{"input": 2}\n')
    assert complaint(path, lambda path: read_queries(path, ("label",))) == "HERE/q.jsonl:2: has no `label`"


def test_input_files_are_parsed_or_bytes(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"x": [1]}', encoding="utf-8")
    (tmp_path / "two.png").write_bytes(b"\x89PNG")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    found = read_queries(write(tmp_path, '{"input_file": "one.json"}\n{"input_file": "two.png"}\n'))
    assert [query.input for query in found] == [{"x": [1]}, b"\x89PNG"]
    assert "bad.json is not JSON" in complaint(write(tmp_path, '{"input_file": "bad.json"}\n', "r.jsonl"))


def test_a_table_has_fields_of_input_and_columns_of_ours(tmp_path: Path) -> None:
    path = write(tmp_path, 'text,length,label,frequency\n"a, b",3,yes,10\nc,,no,2\n', "t.csv")
    found = read_queries(path)
    assert [query.input for query in found] == [{"text": "a, b", "length": 3}, {"text": "c"}]
    assert [dict(query.given) for query in found] == [
        {"label": "yes", "frequency": 10},
        {"label": "no", "frequency": 2},
    ]
    assert complaint(write(tmp_path, "a,b\n1,2\n3\n", "u.csv")) == "HERE/u.csv:3: has 1 cell and the header 2"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"input": 1}', "must have one of `expect` and `raises`"),
        ('{"input": 1, "expect": 1, "raises": "E"}', "must have one of `expect` and `raises`"),
        ('{"input": 1, "expect": 1, "compare": "like"}', "`compare` must be one of json, exact, allclose"),
        ('{"input": 1, "expect": "(", "compare": "regex"}', "`expect` is no regular expression"),
        ('{"input": 1, "expect": 1, "compare": "regex"}', "`expect` is no regular expression"),
        ('{"input": 1, "raises": 5}', "`raises` must be the name of an error"),
        ('{"input": 1, "expect": 1, "rtol": "small"}', "`rtol` must be a number of 0 or more"),
        ('{"input": 1, "expect": 1, "expects": 2}', "unknown key `expects`; did you mean `expect`?"),
    ],
)
def test_a_golden_case_that_contradicts_itself(tmp_path: Path, line: str, told: str) -> None:
    found = complaint(write(tmp_path, line), read_golden)
    assert found.startswith("HERE/q.jsonl:1: ")
    assert told in found


def test_two_golden_cases_of_one_name(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": "a", "input": 1, "expect": 1}\n{"id": "a", "input": 2, "expect": 1}\n')
    assert complaint(path, read_golden) == "HERE/q.jsonl:2: the id 'a' is taken by HERE/q.jsonl:1"
