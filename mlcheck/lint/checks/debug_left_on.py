"""debug-left-on: anomaly detection or autograd profiling is switched on for every run."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites.guards import conditions

LOOKS_AT = "debugging switch"
WORDS = ("detect_anomaly", "emit_nvtx", "gradcheck")
_SWITCHES = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
_CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.profiler.emit_nvtx", "torch.autograd.gradcheck")


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(*_SWITCHES, *_CONTEXTS))
    facts.sites.seen[LOOKS_AT] = len(calls)
    for call in calls:
        switched = call.constant("mode", 0, default=True) if call.name in _SWITCHES else True
        if switched is True and not conditions(call.context) and ".backward(" in call.file.text:
            yield Finding(
                f"`{ast.unparse(call.node.func)}` is on for every run: it makes training several times slower",
                call.place.location,
                help="enable it with an option, only while debugging",
            )
