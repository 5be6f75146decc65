"""What changed from one report to the next: alarms that are new, fixed, gone unseen, or still there."""

from __future__ import annotations

from collections import Counter

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Change, Item, Report, Result

ALARMS = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)
_SURROUNDINGS = frozenset(["python", "torch", "packages", "device", "GPUs", "CUDA", "cuDNN", "driver", "platform"])
_DATA = ("file ", "folder ")


def compare(before: Report, after: Report) -> tuple[Change, ...]:
    """The changes of every rule that raised an alarm in either report, the new ones first.

    A rule that raised an alarm and now passes is fixed. One that was not decided this time (skipped, inconclusive,
    not asked) is `gone`: nobody knows whether it is fixed.
    """
    earlier, later = _alarms(before), _alarms(after)
    now = {item.decided.rule: item for item in after.items()}
    changes = [_kept(earlier[rule], item) if rule in earlier else _new(item) for rule, item in later.items()]
    changes += [_ended(item, now.get(rule)) for rule, item in earlier.items() if rule not in later]
    order = ("new", "fixed", "waived", "gone", "still")
    return tuple(sorted(changes, key=lambda change: (order.index(change.kind), change.rule)))


def surroundings(before: Report, after: Report) -> tuple[str, ...]:
    """What else is different: versions, hardware, the data that was read, the numbers set for rules that both asked."""
    earlier, later = before.environment, after.environment
    told = [
        f"{name}: {earlier[name]} became {value}"
        for name, value in later.items()
        if name in earlier and earlier[name] != value and (name in _SURROUNDINGS or name.startswith(_DATA))
    ]
    return (*told, *_options(before, after))


def _options(before: Report, after: Report) -> list[str]:
    """The options that differ, of the rules that are in both reports."""
    earlier = {result.rule: result.options for result in before.results}
    return [
        f"option `{name}` of {result.rule}: {_set(then, name)} became {_set(result.options, name)}"
        for result in after.results
        if (then := earlier.get(result.rule)) is not None
        for name in sorted({*then, *result.options})
        if then.get(name) != result.options.get(name)
    ]


def _set(options: dict[str, float], name: str) -> str:
    return f"{options[name]:g}" if name in options else "its default"


def _alarms(report: Report) -> dict[str, Item]:
    return {item.decided.rule: item for item in report.items() if item.outcome in ALARMS}


def _new(item: Item) -> Change:
    return Change("new", item.decided.rule, item.decided.headline)


def _ended(before: Item, after: Item | None) -> Change:
    rule = before.decided.rule
    if after is None:
        return Change("gone", rule, "it was not asked this time")
    if after.outcome is Outcome.PASS:
        return Change("fixed", rule, before.decided.headline)
    if after.outcome is Outcome.WAIVED:
        return Change("waived", rule, after.decided.reason)
    return Change("gone", rule, f"{after.outcome.value} this time: {after.decided.reason or after.decided.summary}")


def _kept(before: Item, after: Item) -> Change:
    """Still there; with how many of its findings came and went."""
    earlier, later = _findings(before.decided), _findings(after.decided)
    came, went = (later - earlier).total(), (earlier - later).total()
    return Change("still", after.decided.rule, after.decided.headline, came, went)


def _findings(result: Result) -> Counter[str]:
    """The findings, told apart by what stays when lines above them move."""
    return Counter(found.fingerprint or f"{found.location.path} {found.location.symbol} " for found in result.findings)
