"""Comments that answer a finding, and what is said about comments that answer none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from mlcheck.core.catalog import Catalog
from mlcheck.lint.suppress import Suppressions


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    (tmp_path / "training").mkdir()
    for name in ("missing-zero-grad", "softmax-before-ce", "loss-falls"):
        (tmp_path / "training" / f"{name}.md").write_text("")
    return Catalog((tmp_path,))


LINT = ("missing-zero-grad", "softmax-before-ce")


def suppressions(code: str) -> Suppressions:
    found = Suppressions()
    found.read("f.py", code.encode())
    return found


def hidden(code: str, rule: str = "missing-zero-grad") -> list[int]:
    """The lines of `code` on which a finding of `rule` would be hidden."""
    found = suppressions(code)
    return [line for line in range(1, code.count("\n") + 2) if found.hides(rule, "f.py", line)]


def notices(code: str, catalog: Catalog, hide: Iterable[tuple[str, int]] = (), ran_all: bool = True) -> list[str]:
    found = suppressions(code)
    for rule, line in hide:
        found.hides(rule, "f.py", line)
    return list(found.notices(catalog, LINT, ran_all))


def test_comment_on_the_line() -> None:
    assert hidden("a()\nb()  # mlcheck: ignore[missing-zero-grad] cleared by the engine\nc()\n") == [2]


def test_other_rules_stay() -> None:
    assert hidden("b()  # mlcheck: ignore[missing-zero-grad]\n", "softmax-before-ce") == []


def test_several_rules() -> None:
    code = "b()  # mlcheck: ignore[missing-zero-grad,softmax-before-ce] both on purpose\n"
    assert hidden(code) == hidden(code, "softmax-before-ce") == [1]


def test_without_brackets_every_rule_on_the_line() -> None:
    assert hidden("b()  # mlcheck: ignore\nc()\n", "softmax-before-ce") == [1]


def test_own_line_above() -> None:
    assert hidden("a()\n# mlcheck: ignore[missing-zero-grad] reason\n\n# more\nb()\nc()\n") == [5]


def test_end_of_a_statement_covers_all_its_lines() -> None:
    assert hidden("f(\n    1,\n    2,\n)  # mlcheck: ignore[missing-zero-grad]\ng()\n") == [1, 2, 3, 4]


def test_inside_a_statement_covers_all_its_lines() -> None:
    assert hidden("f(\n    # mlcheck: ignore[missing-zero-grad]\n    1,\n)\ng()\n") == [1, 2, 3, 4]


def test_on_a_header_covers_the_header_only() -> None:
    assert hidden("for x in y:  # mlcheck: ignore[missing-zero-grad]\n    f()\n") == [1]


def test_beside_another_tools_comment() -> None:
    assert hidden("f()  # noqa: E501  # mlcheck: ignore[missing-zero-grad] why\n") == [1]


def test_whole_file_from_anywhere() -> None:
    code = "a()\nb()\n# mlcheck: ignore-file[missing-zero-grad] a framework steps for us\n"
    assert hidden(code) == [1, 2, 3, 4]
    assert hidden(code, "softmax-before-ce") == []
    assert hidden(code.replace("[missing-zero-grad]", ""), "softmax-before-ce") == [1, 2, 3, 4]


def test_only_real_comments() -> None:
    assert hidden('s = "# mlcheck: ignore"\nt = """\n# mlcheck: ignore-file\n"""\n') == []


def test_file_that_cannot_be_tokenized_hides_what_came_before() -> None:
    assert hidden("a()  # mlcheck: ignore\nb((\n") == [1]
    suppressions("\0 # mlcheck: ignore")


def test_not_utf8_is_no_crash() -> None:
    Suppressions().read("f.py", b"\xff\xfe # mlcheck: ignore\n")


def test_other_files_are_not_covered() -> None:
    assert not suppressions("a()  # mlcheck: ignore\n").hides("missing-zero-grad", "g.py", 1)


def test_used_comment_is_not_told(catalog: Catalog) -> None:
    code = "a()  # mlcheck: ignore[missing-zero-grad] why\nb()  # mlcheck: ignore\n"
    assert notices(code, catalog, [("missing-zero-grad", 1), ("softmax-before-ce", 2)]) == []


def test_idle_comment_is_told(catalog: Catalog) -> None:
    code = "a()\nb()  # mlcheck: ignore[missing-zero-grad] why\nc()  # mlcheck: ignore\n"
    assert notices(code, catalog) == [
        "f.py:2: `# mlcheck: ignore[missing-zero-grad]` hides nothing: remove it",
        "f.py:3: `# mlcheck: ignore` hides nothing: remove it",
    ]


def test_half_idle_comment_is_told(catalog: Catalog) -> None:
    code = "a()  # mlcheck: ignore[missing-zero-grad, softmax-before-ce]\n"
    assert notices(code, catalog, [("missing-zero-grad", 1)]) == [
        "f.py:1: `# mlcheck: ignore[missing-zero-grad, softmax-before-ce]` hides no `softmax-before-ce`: take it out"
    ]


def test_rules_that_did_not_run_leave_a_comment_unjudged(catalog: Catalog) -> None:
    assert notices("a()  # mlcheck: ignore[loss-falls]\n", catalog) == []
    assert notices("a()  # mlcheck: ignore\n", catalog, ran_all=False) == []


def test_unknown_rule_is_told_with_a_near_one(catalog: Catalog) -> None:
    (notice,) = notices("a()  # mlcheck: ignore[missing-zerograd]\n", catalog)
    assert notice.startswith("f.py:1: `# mlcheck: ignore[missing-zerograd]`: no rule is called `missing-zerograd`")
    assert "`missing-zero-grad`" in notice


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("# mlcheck: ignroe[missing-zero-grad]", "`# mlcheck: ignroe` means nothing"),
        ("# mlcheck: ignore[]", "`# mlcheck: ignore[]` names no rule"),
        ("# mlcheck: ignore[missing-zero-grad", "`# mlcheck: ignore[missing-zero-grad` names no rule"),
        ("# mlcheck:", "`# mlcheck: ` means nothing"),
    ],
)
def test_comment_that_cannot_be_read_is_told_and_hides_nothing(comment: str, problem: str, catalog: Catalog) -> None:
    assert hidden(f"a()  {comment}\n") == []
    (notice,) = notices(f"a()  {comment}\n", catalog)
    assert notice.startswith(f"f.py:1: {problem}")
