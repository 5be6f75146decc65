"""What a command saw on its way that another command would tell."""

from __future__ import annotations

from mlcheck import project
from mlcheck.config import Config
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import Severity


def config_hint(path: str, config: Config) -> tuple[str, ...]:
    """A word about the findings in an experiment's YAML, which running its program shows none of."""
    from mlcheck.experiment.run import run_lint_and_configs

    if not _is_for_the_cluster(path):
        return ()
    try:
        found = run_lint_and_configs([path], project.lint_settings(config))
    except Mistake:  # its own sentence is told by whoever needs the file
        return ()
    rules = [result.rule for result in found.results if result.findings and result.severity is not Severity.NOTE]
    if not rules:
        return ()
    return (f"the cluster may not take {path} as it is ({', '.join(rules)}): `mlcheck lint {path}` tells more",)


def _is_for_the_cluster(path: str) -> bool:
    """Hyperparameters alone, for a function, are nothing that the cluster reads."""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            told = yaml.safe_load(file)
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(told, dict) and {"entrypoint", "searcher"} <= set(told)
