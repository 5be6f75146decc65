"""The machine with its language: which module says what evaluating, executing and calling mean."""

from __future__ import annotations

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.python import calls, expressions, following, instances, statements


class Interpreter(Machine):
    """The only place that knows every part of the language; the functions take the machine first, as methods do."""

    evaluate = expressions.evaluate
    execute = statements.block
    call = calls.call
    call_method = calls.call_method
    havoc = calls.havoc
    follow = following.follow
    run_generator = following.run_generator
    ready = instances.ready
