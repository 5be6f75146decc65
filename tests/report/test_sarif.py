"""SARIF as GitHub documents what it accepts, and as the standard requires it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.report import sarif

TEXT = {"type": "string", "minLength": 1}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}, "additionalProperties": False}
LEVEL = {"enum": ["error", "warning", "note"]}
COUNTED = {"type": "integer", "minimum": 1}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "id": COUNTED,
        "message": MESSAGE,
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {**TEXT, "pattern": r"^[A-Za-z0-9._~/%:-]+$"}},
                    "additionalProperties": False,
                },
                "region": {
                    "type": "object",
                    "required": ["startLine", "startColumn", "endLine", "endColumn"],
                    "additionalProperties": COUNTED,
                },
            },
            "additionalProperties": False,
        },
        "logicalLocations": {
            "type": "array",
            "items": {"type": "object", "properties": {"fullyQualifiedName": TEXT}, "additionalProperties": False},
        },
    },
    "additionalProperties": False,
}
RULE = {
    "type": "object",
    "required": ["id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration", "properties"],
    "properties": {
        "id": {**TEXT, "maxLength": 255},
        "name": {**TEXT, "maxLength": 255},
        "shortDescription": {**MESSAGE, "properties": {"text": {**TEXT, "maxLength": 1024}}},
        "fullDescription": {**MESSAGE, "properties": {"text": {**TEXT, "maxLength": 1024}}},
        "help": {"type": "object", "required": ["text"], "additionalProperties": TEXT},
        "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}, "additionalProperties": False},
        "properties": {
            "type": "object",
            "required": ["tags", "precision", "problem.severity"],
            "properties": {
                "tags": {"type": "array", "items": TEXT, "maxItems": 20, "uniqueItems": True},
                "precision": {"enum": ["very-high", "high", "medium", "low"]},
                "problem.severity": {"enum": ["error", "warning", "recommendation"]},
            },
        },
    },
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
    "properties": {
        "ruleId": TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {"type": "array", "items": LOCATION, "minItems": 1, "maxItems": 10},
        "relatedLocations": {"type": "array", "items": LOCATION, "minItems": 1},
        "partialFingerprints": {
            "type": "object",
            "required": ["primaryLocationLineHash"],
            "additionalProperties": TEXT,
        },
        "suppressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": {"enum": ["inSource", "external"]}, "justification": TEXT},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
# What https://docs.github.com/code-security lists as supported, with its limits, and nothing besides.
GITHUB: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "$schema": {"type": "string", "pattern": "sarif-schema-2.1.0.json$"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 20,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {
                                    "name": TEXT,
                                    "version": TEXT,
                                    "semanticVersion": TEXT,
                                    "rules": {"type": "array", "items": RULE, "uniqueItems": True},
                                },
                                "additionalProperties": False,
                            }
                        },
                        "required": ["driver"],
                        "additionalProperties": False,
                    },
                    "automationDetails": {
                        "type": "object",
                        "properties": {"id": {**TEXT, "pattern": "^mlcheck/"}},
                        "additionalProperties": False,
                    },
                    "columnKind": {"const": "unicodeCodePoints"},
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["executionSuccessful"],
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": {"type": "object", "properties": {"level": LEVEL, "message": MESSAGE}},
                                },
                            },
                            "additionalProperties": False,
                        },
                    },
                    "results": {"type": "array", "items": RESULT, "maxItems": 25_000},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


def run(report: Report, **more: Any) -> dict[str, Any]:
    """The one run, after everything that can be said of any run was checked."""
    data = json.loads(sarif.render(report, **more))
    jsonschema.Draft202012Validator(GITHUB).validate(data)
    (only,) = data["runs"]
    rules = only["tool"]["driver"]["rules"]
    for found in only["results"]:
        assert rules[found["ruleIndex"]]["id"] == found["ruleId"]
        for place in (*found["locations"], *found.get("relatedLocations", ())):
            region = place["physicalLocation"]["region"]
            start, end = (region["startLine"], region["startColumn"]), (region["endLine"], region["endColumn"])
            assert start <= end
    marks = [found["partialFingerprints"]["primaryLocationLineHash"] for found in only["results"]]
    assert len(set(marks)) == len(marks)
    return dict(only)


def one(finding: Finding, outcome: Outcome = Outcome.FAIL, rule: str = "missing-zero-grad", by: By = By.LINT) -> Report:
    result = Result(rule, "Gradients are cleared", Stage.TRAINING, Severity.ERROR, by, outcome, findings=(finding,))
    return Report("lint", "src", (result,), {"mlcheck": "0.1.0"})


def test_a_finding_is_a_result_with_its_rule() -> None:
    finding = Finding(
        "m.", Location("src/a b.py", 3, 5, 3, 9, "train"), "mend it", {}, (Location("src/c.py", 8),), "f1"
    )
    only = run(one(finding))
    (result,) = only["results"]
    assert result["message"]["text"] == "m. mend it"
    assert result["level"] == "error"
    assert result["partialFingerprints"]["primaryLocationLineHash"] == "f1"
    (place,) = result["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "src/a%20b.py"},
        "region": {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 9},
    }
    assert place["logicalLocations"] == [{"fullyQualifiedName": "train"}]
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "src/c.py"
    assert only["tool"]["driver"]["semanticVersion"] == "0.1.0"


def test_nothing_found_is_a_run_without_results() -> None:
    only = run(Report("lint", ".", ()))
    assert (only["results"], only["tool"]["driver"]["rules"]) == ([], [])


def test_a_rule_brings_its_page() -> None:
    (rule,) = run(one(Finding("m", Location("a.py", 1))))["tool"]["driver"]["rules"]
    assert rule["id"] == "missing-zero-grad"
    assert rule["fullDescription"]["text"].startswith("`backward()` adds to `.grad`")
    assert "```python" in rule["help"]["markdown"]
    assert "```" not in rule["help"]["text"]
    assert rule["properties"]["problem.severity"] == "error"


def test_a_rule_of_another_version_has_at_least_its_title() -> None:
    (rule,) = run(one(Finding("m", Location("a.py", 1)), rule="long-gone"))["tool"]["driver"]["rules"]
    assert rule["help"] == {"text": "Gradients are cleared"}


@pytest.mark.parametrize(
    ("outcome", "level"), [(Outcome.FAIL, "error"), (Outcome.WARN, "warning"), (Outcome.PASS, "note")]
)
def test_levels(outcome: Outcome, level: str) -> None:
    (result,) = run(one(Finding("m", Location("a.py", 1)), outcome))["results"]
    assert result["level"] == level


def test_a_finding_about_a_whole_file_stands_at_its_beginning() -> None:
    (result,) = run(one(Finding("m", Location("a.py"))))["results"]
    assert set(result["locations"][0]["physicalLocation"]["region"].values()) == {1}


def test_paths_are_told_from_the_root_of_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    (result,) = run(one(Finding("m", Location("größe.py", 1))), root="..")["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sub/gr%C3%B6%C3%9Fe.py"


def test_what_has_no_place_and_what_broke_are_notifications() -> None:
    placeless = one(Finding("no file", Location(symbol="net.0")), by=By.PROBE)
    failed = replace(placeless.results[0], rule="r", outcome=Outcome.ERROR, reason="KeyError: 3", findings=())
    only = run(replace(placeless, results=(*placeless.results, failed), notices=("told",)))
    assert only["results"] == []
    (invocation,) = only["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [note["message"]["text"] for note in invocation["toolExecutionNotifications"]] == [
        "r broke: KeyError: 3",
        "missing-zero-grad: no file",
        "told",
    ]


def test_a_waiver_is_a_suppression() -> None:
    read = one(Finding("m", Location("a.py", 1)))
    waiver = replace(read.results[0], by=By.SIGN_OFF, outcome=Outcome.WAIVED, findings=(), reason="waived by Ada")
    (result,) = run(replace(read, results=(*read.results, waiver)))["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "waived by Ada"}]


def test_any_report_is_accepted(report: Report, hostile: Report) -> None:
    assert {result["ruleId"] for result in run(report)["results"]} >= {"softmax-before-ce", "missing-eval-mode"}
    assert run(hostile)["invocations"][0]["executionSuccessful"] is False


def test_github_takes_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "_MOST_RESULTS", 3)
    findings = tuple(Finding("m", Location("a.py", number)) for number in range(1, 9))
    many = one(findings[0])
    assert len(run(replace(many, results=(replace(many.results[0], findings=findings),)))["results"]) == 3
