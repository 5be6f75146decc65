"""Notebooks as Python: which lines come out, and where."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from mlcheck.core.notebook import NoNotebook, read_notebook


def notebook(*cells: str, indent: int | None = 1, **metadata: Any) -> bytes:
    made: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": ["for x in y:\n", "prose"]}]
    made += [
        {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [], "source": cell.splitlines(True)}
        for cell in cells
    ]
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4}, indent=indent).encode()


def code(data: bytes) -> list[str]:
    return [line for line in read_notebook(data).text.split("\n") if line]


def test_each_line_stands_where_the_file_has_it() -> None:
    data = notebook("import torch\n\nx = 'a\"b'  # ü", "y = 2")
    read = read_notebook(data)
    raw, text = data.decode().split("\n"), read.text.split("\n")
    for line, label in (
        ("import torch", "cell 1, line 1"),
        ("x = 'a\"b'  # ü", "cell 1, line 3"),
        ("y = 2", "cell 2, line 1"),
    ):
        number = text.index(line) + 1
        assert json.dumps(line)[1:-1] in raw[number - 1]
        assert read.cells[number] == label


def test_what_shares_a_line_goes_beneath_it() -> None:
    for data in notebook("a = 1\nb = 2", "c = 3", indent=None), json.dumps({"cells": [
        {"cell_type": "code", "source": "a = 1\nb = 2\n"}, {"cell_type": "code", "source": "c = 3"},
    ]}).encode():  # fmt: skip
        assert code(data) == ["a = 1", "b = 2", "c = 3"]
        assert list(read_notebook(data).cells.values()) == ["cell 1, line 1", "cell 1, line 2", "cell 2, line 1"]


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        ("%matplotlib inline\n!pip install torch\nx = 1", ["pass", "pass", "x = 1"]),
        ("if x:\n    !ls\n    %cd ..", ["if x:", "    pass", "    pass"]),
        ("files = !ls\nd = %pwd", ["files = get_ipython()", "d = get_ipython()"]),
        ("model?\nmodel.train??\n?model\nx = 1", ["pass", "pass", "pass", "x = 1"]),
        ("%%time\nx = 1", ["x = 1"]),
        ("%time train()\nif x:\n    %time y = f(2)", ["train()", "if x:", "    y = f(2)"]),
        ("%timeit -n 3 f(x)\n%time\n%timer f\n%time a b", ["pass"] * 4),
        ("took = %timeit -o f(x)\n%prun model.fit(x)", ["took = get_ipython()", "model.fit(x)"]),
        ("\n%%capture out\nx = 1", ["x = 1"]),
        ("%%bash\nls", []),
        ("%%writefile a.py\nx = 1", []),
        ("pip install torch", []),
        ("x = (1\n  % 2)", ["x = (1", "  % 2)"]),
        ('s = """\n%d of them\n!"""', ['s = """', "%d of them", '!"""']),
        ("x = 1\n\n", ["x = 1"]),
    ],
)
def test_what_is_meant_for_ipython_does_nothing(cell: str, lines: list[str]) -> None:
    assert code(notebook(cell, "after = 1")) == [*lines, "after = 1"]
    ast.parse(read_notebook(notebook(cell)).text)


@pytest.mark.parametrize(
    "metadata",
    [
        {"language_info": {"name": "julia"}},
        {"kernelspec": {"language": "R", "name": "ir"}},
    ],
)
def test_a_notebook_in_another_language_is_empty(metadata: dict[str, Any]) -> None:
    assert code(notebook("x = 1", **metadata)) == []
    assert code(notebook("x = 1", language_info={"name": "ipython"})) == ["x = 1"]


@pytest.mark.parametrize(
    "data", [b"", b"{]", b"[1]", b'{"nbformat": 3, "worksheets": []}', b"\xff\xfe", b'{"cells": 1}', b"[" * 100_000]
)
def test_what_is_no_notebook_is_told(data: bytes) -> None:
    with pytest.raises(NoNotebook, match=r"^it (is no JSON|has no list of cells)"):
        read_notebook(data)


def test_cells_that_cannot_be_read_are_counted_but_not_those_in_another_language() -> None:
    data = notebook("x = 1", "pip install torch", "%%bash\nls", "", "a b\nc d", "%%time\ny = 2")
    assert read_notebook(data).left_out == (2, 5)


def test_odd_cells_are_left_out() -> None:
    cells = [
        3,
        {"cell_type": "code"},
        {"cell_type": "code", "source": [1, "x = 1"]},
        {"cell_type": "raw", "source": "y"},
    ]
    assert code(json.dumps({"cells": cells, "metadata": []}).encode()) == ["x = 1"]
