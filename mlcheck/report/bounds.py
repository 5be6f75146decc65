"""Cuts what is endless in a report, before it is written out: a message may hold a tensor, a path a whole file."""

from __future__ import annotations

from mlcheck.core.dataclasses import replace
from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.report import Change, Report, Result
from mlcheck.report.safe import cut

_NAME, _PATH, _TEXT, _TRACEBACK = 200, 1_000, 4_000, 40_000


def bounded(report: Report) -> Report:
    """The same report with every text cut to a sensible length; renderers limit images and curves themselves."""
    return replace(
        report,
        command=cut(report.command, _NAME),
        subject=cut(report.subject, _PATH),
        results=tuple(map(_result, report.results)),
        environment={cut(name, _NAME): cut(value, _TEXT) for name, value in report.environment.items()},
        notices=tuple(cut(notice, _TEXT) for notice in report.notices),
        arguments=tuple(cut(argument, _TEXT) for argument in report.arguments),
        changes=tuple(map(_change, report.changes)),
    )


def _result(result: Result) -> Result:
    return replace(
        result,
        rule=cut(result.rule, _NAME),
        title=cut(result.title, _TEXT),
        summary=cut(result.summary, _TEXT),
        reason=cut(result.reason, _TEXT),
        findings=tuple(map(_finding, result.findings)),
        figures=tuple(map(_figure, result.figures)),
        numbers=_numbers(result.numbers),
        traceback=cut(result.traceback, _TRACEBACK),
        explains=tuple(cut(rule, _NAME) for rule in result.explains),
    )


def _finding(finding: Finding) -> Finding:
    return replace(
        finding,
        message=cut(finding.message, _TEXT),
        location=_location(finding.location),
        help=cut(finding.help, _TEXT),
        numbers=_numbers(finding.numbers),
        related=tuple(map(_location, finding.related)),
    )


def _figure(figure: Figure) -> Figure:
    return replace(figure, kind=cut(figure.kind, _NAME), title=cut(figure.title, _TEXT))


def _location(place: Location) -> Location:
    if len(place.path) <= _PATH and len(place.symbol) <= _NAME:
        return place
    return replace(place, path=cut(place.path, _PATH), symbol=cut(place.symbol, _NAME))


def _numbers(numbers: dict[str, float]) -> dict[str, float]:
    return {cut(name, _NAME): value for name, value in numbers.items()}


def _change(change: Change) -> Change:
    return replace(change, rule=cut(change.rule, _NAME), said=cut(change.said, _TEXT))
