"""How often the experiment config's table agrees with Determined's own shared test cases.

    python tests/benchmarks/config_schema.py CHECKOUT        # of github.com/determined-ai/determined

reads `schemas/test_cases/v0` of the checkout and prints the agreement and every case that is judged otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from mlcheck.experiment import fields, searchers
from mlcheck.experiment.document import merged_entries
from mlcheck.experiment.field_rules import Values, uncounted
from mlcheck.experiment.shape import TEXT, WHOLE, Fields, Kind, Many, Problem, Scalar, Shape
from mlcheck.yaml12 import CoreLoader

KINDS = {"sane_as": (True, False), "sanity_errors": (False, False)}
COMPLETE_KINDS = {"complete_as": (True, True), "completeness_errors": (False, True)}


class Counted:
    """What upstream asks of every hyperparameter of a grid."""

    def problems(self, node: yaml.Node, path: str, complete: bool) -> Iterator[Problem]:
        yield from uncounted(node, path)


def one_connection(values: Values, node: yaml.Node, path: str) -> Iterator[Problem]:
    given = [name for name in ("connection_string", "account_url") if name in values]
    if len(given) != 1:
        told = "needs one of `connection_string` and `account_url`" if not given else "has two ways to connect"
        yield Problem(node, path, f"`{path}` {told}", "give exactly one of `connection_string` and `account_url`")


AZURE = fields.AZURE
AZURE_COMPLETE = Fields(AZURE.known, AZURE.needs, AZURE.wants, (*AZURE.rules, one_connection))
UNION_A = Fields({"type": Scalar(TEXT, choices=("a",)), "val_a": Scalar(WHOLE), "common_val": Scalar(TEXT)}, ("type",))
UNION_B = Fields({"type": Scalar(TEXT, choices=("b",)), "val_b": Scalar(WHOLE), "common_val": Scalar(TEXT)}, ("type",))
UNION = Kind("type", {"a": UNION_A, "b": UNION_B}, Fields({}))
SCHEMAS: dict[str, Shape] = {
    "azure": AZURE,
    "bind-mount": fields.BIND_MOUNT,
    "check-grid-hyperparameter": Counted(),
    "check-positive-length": searchers.POSITIVE_LENGTH,
    "checkpoint-storage": fields.CHECKPOINT_STORAGE,
    "directory": fields.DIRECTORY,
    "environment": fields.ENVIRONMENT,
    "environment-image": fields.ENVIRONMENT_IMAGE,
    "environment-variables": fields.ENVIRONMENT_VARIABLES,
    "experiment": fields.EXPERIMENT,
    "gcs": fields.GCS,
    "hyperparameter": searchers.HYPERPARAMETER,
    "length": searchers.LENGTH,
    "log-action": fields.LOG_ACTION,
    "log-legacy-action-cancel-retries": fields.LOG_ACTION,
    "log-legacy-action-exclude-node": fields.LOG_ACTION,
    "log-policies": Many(fields.LOG_POLICY),
    "log-policy": fields.LOG_POLICY,
    "profiling": fields.PROFILING,
    "resources": fields.RESOURCES,
    "s3": fields.S3,
    "searcher": searchers.SEARCHER,
    "security": fields.SECURITY,
    "shared-fs": fields.SHARED_FS,
    "test-root": Fields(
        {
            "val_x": Scalar(WHOLE),
            "sub_obj": Fields({"val_y": Scalar(TEXT)}),
            "sub_union": UNION,
            "runtime_defaultable": Scalar(WHOLE),
            "defaulted_array": Many(Scalar(TEXT)),
            "nodefault_array": Many(Scalar(TEXT)),
        },
        ("val_x",),
    ),
    "test-union": UNION,
    "test-union-a": UNION_A,
    "test-union-b": UNION_B,
    **{f"hyperparameter-{name}": shape for name, shape in searchers.RANGES.items()},
    **{f"searcher-{name.replace('_', '-')}": shape for name, shape in searchers.SEARCHERS.items()},
}


@dataclass(frozen=True)
class Judged:
    """One case against one schema: what upstream says of it, and what is found here."""

    case: str
    schema: str
    complete: bool
    accepted: bool
    problems: tuple[Problem, ...]

    @property
    def agrees(self) -> bool:
        return self.accepted is not bool(self.problems)


def judged(checkout: Path) -> Iterator[Judged]:
    folder = checkout / "schemas" / "test_cases" / "v0"
    if not folder.is_dir():
        raise SystemExit(f"{folder} does not exist: give a checkout of determined-ai/determined")
    for path in sorted(folder.glob("*.yaml")):
        for node in yaml.compose(path.read_text(encoding="utf-8"), CoreLoader).value:
            case = {entry.key: entry.value for entry in merged_entries(node)}
            for kind, (accepted, complete) in (KINDS | COMPLETE_KINDS).items():
                told = case.get(kind)
                urls = [item[0] if isinstance(item, tuple) else item for item in told.value] if told else []
                for url in urls:
                    schema = url.value.rpartition("/")[2].removesuffix(".json")
                    problems = tuple(_shape(schema, complete).problems(case["case"], "", complete))
                    yield Judged(case["name"].value, schema, complete, accepted, problems)


def _shape(schema: str, complete: bool) -> Shape:
    return AZURE_COMPLETE if schema == "azure" and complete else SCHEMAS[schema]


def main(checkout: Path) -> None:
    every = list(judged(checkout))
    for title, complete in (("sane or not", False), ("complete or not", True)):
        some = [one for one in every if one.complete is complete]
        print(f"{title}: {sum(one.agrees for one in some)} of {len(some)} agree")
    for one in every:
        if not one.agrees:
            print(f"  {one.schema}: {one.case}: accepted upstream: {one.accepted}; here: {one.problems}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
