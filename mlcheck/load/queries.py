"""Reads query files: one JSON object a line; blank lines and lines that begin with `#` are left out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from mlcheck.core.mistake import Mistake
from mlcheck.core.plural import plural

_KEYS = ("input", "input_file", "id", "label", "group", "frequency", "prediction", "live")
_BROKEN_SHARE = 0.01


class BadQueries(Mistake):
    """A query file that cannot be used: one sentence with the file, the line and the fault."""


@dataclass(frozen=True, slots=True)
class Query:
    """What the model is asked. `given` holds the other keys of the line: label, group, frequency, live ...

    `source` is the file and line it came from, `name` its id or, without one, that place.
    """

    input: Any
    name: str
    source: str
    given: Mapping[str, Any]


def read_queries(path: Path, required: tuple[str, ...] = (), keys: tuple[str, ...] = _KEYS) -> list[Query]:
    """All queries of a .jsonl, .csv or .tsv file. Raises BadQueries at the first line that is wrong, or for none.

    In a table the columns named like the keys are those keys and every other column is a field of `input`.
    """
    found = []
    for one in _each(path, required, keys):
        if isinstance(one, BadQueries):
            raise one
        found.append(one)
    return _not_empty(found, path)


class Log(NamedTuple):
    """The queries of a long file, and a sentence with file and line for each line that holds none."""

    queries: list[Query]
    broken: tuple[str, ...]


def read_log(path: Path) -> Log:
    """The same, with broken lines set aside while they are at most one in a hundred: logs have such."""
    queries, broken = [], []
    for one in _each(path, (), _KEYS):
        if isinstance(one, BadQueries):
            broken.append(one)
        else:
            queries.append(one)
    if len(broken) > _BROKEN_SHARE * (len(queries) + len(broken)):
        more = f" (and {len(broken) - 1:,} more broken lines)" if len(broken) > 1 else ""
        raise BadQueries(f"{broken[0]}{more}")
    return Log(_not_empty(queries, path), tuple(map(str, broken)))


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line of a JSON Lines file."""
    for number, row in _json_rows(path):
        if isinstance(row, str):
            raise BadQueries(f"{path}:{number}: {row}")
        yield number, row


def _not_empty(found: list[Query], path: Path) -> list[Query]:
    if not found:
        raise BadQueries(f"{path}: holds no query; write one JSON object a line, as `mlcheck load --init` shows")
    return found


def _each(path: Path, required: tuple[str, ...], keys: tuple[str, ...]) -> Iterator[Query | BadQueries]:
    rows = _table_rows(path) if path.suffix in {".csv", ".tsv"} else _json_rows(path)
    for number, row in rows:
        where = f"{path}:{number}"
        try:
            yield BadQueries(f"{where}: {row}") if isinstance(row, str) else _query(path, where, row, required, keys)
        except BadQueries as error:
            yield error


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Line number, and the object or what is wrong with the line."""
    for number, line in enumerate(_text(path).split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            yield number, f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        except RecursionError:
            yield number, "nested too deeply to be read"
        else:
            wrong = f'must be an object like {{"input": ...}}, not {_shown(row)}'
            yield number, row if isinstance(row, dict) else wrong


def _table_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Rows of a table; a cell that reads as a number is one."""
    reader = csv.reader(_text(path).splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
    header = next(reader, [])
    for cells in reader:
        if not cells:
            continue
        if len(cells) != len(header):
            yield reader.line_num, f"has {plural(len(cells), 'cell')} and the header {len(header)}"
            continue
        row = {name: _cell(cell) for name, cell in zip(header, cells, strict=True) if cell != ""}
        fields = {name: value for name, value in row.items() if name not in _KEYS}
        named = {name: row[name] for name in row if name in _KEYS}
        yield reader.line_num, named | ({"input": fields} if fields else {})


def _cell(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = get_close_matches(path.name, [other.name for other in path.parent.glob("*")], n=1)
        hint = f"; did you mean {path.parent / near[0]}?" if near else ""
        raise BadQueries(f"there is no file {path}{hint}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadQueries(f"{path}:{line}: not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise BadQueries(f"{path}: cannot be read: {error.strerror}") from error


def _query(path: Path, where: str, row: dict[str, Any], required: tuple[str, ...], keys: tuple[str, ...]) -> Query:
    for key in row:
        if key not in keys:
            near = get_close_matches(key, keys, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f"; a line holds {', '.join(keys)}"
            raise BadQueries(f"{where}: unknown key `{key}`{hint}")
    for key in required:
        if key not in row:
            raise BadQueries(f"{where}: has no `{key}`")
    if ("input" in row) == ("input_file" in row) and "prediction" not in row:
        raise BadQueries(f"{where}: must have one of `input` and `input_file`")
    if not _is_count(row.get("frequency", 1)):
        raise BadQueries(f"{where}: `frequency` must be a number above 0, not {_shown(row['frequency'])}")
    given = {key: value for key, value in row.items() if key not in {"input", "input_file"}}
    content = _file_content(path.parent / str(row["input_file"]), where) if "input_file" in row else row.get("input")
    return Query(content, str(row.get("id", where)), where, given)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _file_content(path: Path, where: str) -> Any:
    """What a file holds: parsed JSON for `.json`, the bytes for anything else."""
    try:
        data = path.read_bytes()
        return json.loads(data) if path.suffix == ".json" else data
    except OSError as error:
        raise BadQueries(f"{where}: `input_file` {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BadQueries(f"{where}: `input_file` {path} is not JSON: {error}") from None


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
