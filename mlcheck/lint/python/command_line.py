"""What a parsed command line is known to say."""

from __future__ import annotations

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.sites.options import fixed
from mlcheck.lint.values import Const, Object, Symbol, Value


def parsed(m: Machine, parser: Value, options: Value) -> Value:
    """What `parser.parse_args()` returned, with those of its switches that are the same whatever is given."""
    if isinstance(options, Symbol) and isinstance(parser, Object) and parser.type == "argparse.ArgumentParser":
        for name, value in m.facts.sites.once(fixed).items():
            m.store.set(("a", options.key, name), Const(value))
    return options
