"""Let the rules judge one group of files."""

from __future__ import annotations

from collections.abc import Sequence

from mlcheck.core.dataclasses import replace
from mlcheck.core.finding import Finding, Location
from mlcheck.lint.files.reading import Text
from mlcheck.lint.work.answers import Failure
from mlcheck.lint.work.tasks import Said, Seen, Task


def ask(texts: Sequence[Text], task: Task) -> Said:
    """Let the rules of the task judge the files of its group."""
    from mlcheck.lint.engine import Crash, Left, analyse  # a run that finds all in the cache does without

    said = Said()
    by_path = {text.path: text for text in texts}
    sources = [text.source for text in texts]
    for answer in analyse(sources, task.rules, task.torch, task.group.called_elsewhere, part=task.part):
        if isinstance(answer, Seen):
            said.seen = answer
        elif isinstance(answer, Crash):
            said.failures.append((answer.rule, Failure(answer.reason, answer.traceback)))
        elif isinstance(answer, Left):
            said.left.append(answer.rule)
        else:
            said.answers.append((answer[0], _as_told(answer[1], by_path)))
    return said


def _as_told(finding: Finding, texts: dict[str, Text]) -> Finding:
    def told(place: Location) -> Location:
        return texts[place.path].as_told(place) if place.path in texts else place

    return replace(
        finding,
        location=told(finding.location),
        related=tuple(told(place) for place in finding.related),
    )
