"""Judges a table for the places of a sequence that is never read, in a model that does not know their order."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.unread_tables import UnreadTables
from mlcheck.probe.measure.names import listed


def check(seen: UnreadTables) -> Verdict:
    has, it = ("has", "it") if len(seen.unread) == 1 else ("have", "them")
    message = (
        f"{listed(list(seen.unread))} {has} a row for each place of a sequence, and no step reads {it}: the "
        f"{seen.places} places in another order are all the same to `{seen.model}`"
    )
    help_ = "add it to what is made of the tokens, or remove it"
    finding = Finding(message, Location(symbol=seen.unread[0]), help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(seen.unread))
