"""The abstract machine: memory, scopes, paths and their joins. What statements mean is said elsewhere."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from mlcheck.lint.facts import Facts, GradMode, Loop, Place, Turn
from mlcheck.lint.interpret import equalities
from mlcheck.lint.interpret.effort import Effort
from mlcheck.lint.interpret.frames import DeadPath, Exit, Frame, Sink
from mlcheck.lint.interpret.joins import join_cells, join_values
from mlcheck.lint.interpret.relevance import Relevance
from mlcheck.lint.interpret.store import Delta, Store
from mlcheck.lint.program import Program
from mlcheck.lint.touched import Touched
from mlcheck.lint.values import Args, Function, Kwargs, Object, Symbol, Value

if TYPE_CHECKING:
    from mlcheck.lint.interpret.habits import Habit
    from mlcheck.lint.sites.project import Sites


class Machine(ABC):
    """State of one interpretation of a program, and the operations by which the parts of the language use each other.

    Evaluating an expression calls functions, whose statements evaluate expressions: the modules that say what each
    construct means reach one another through the machine, not by imports. `interpreter.Interpreter` joins them.
    """

    def __init__(self, program: Program, sites: Sites) -> None:
        self.program = program
        self.facts = Facts()
        self.facts.sites = sites
        self.relevance = Relevance(program, sites)
        self.effort = Effort(self.facts.landmarks, self.relevance.promises)
        self.store = Store()
        self.frames: list[Frame] = []
        self.loops: list[Loop] = []
        self.inside_module, self.building, self.ways = 0, 0, 1
        self.moment: tuple[Turn, float] | None = None
        self.touched = Touched()
        self.loaded: set[str] = set()
        self.kept: set[str] = set()  # of those loaded, the ones that no root takes back
        self.visited: set[ast.AST] = set()
        self.parents: dict[Hashable, Hashable] = {}
        self.moded, self.made = set[Hashable](), set[Hashable]()  # of the second it is known that they began training
        self.habits: dict[ast.AST, Habit] = {}
        self.nested: dict[ast.AST, Value] = {}
        self.closed_over: set[Hashable] = set()
        self.counters: dict[ast.AST, frozenset[str]] = {}
        self.counting: dict[ast.expr, bool] = {}
        self.branched: dict[ast.AST, frozenset[ast.AST]] = {}
        self._count = 0

    # the language, each operation defined in a module of its own

    @abstractmethod
    def evaluate(self, node: ast.expr | None) -> Value:
        """The abstract value of an expression."""

    @abstractmethod
    def execute(self, body: Sequence[ast.stmt]) -> bool:
        """Run statements in order. False when the end is never reached."""

    @abstractmethod
    def call(self, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call any value."""

    @abstractmethod
    def call_method(self, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """`owner.name(...)`."""

    @abstractmethod
    def havoc(self, values: list[Value]) -> None:
        """Forget the state of objects that were handed to unknown code."""

    @abstractmethod
    def follow(
        self,
        function: Function,
        args: Args,
        kwargs: Kwargs,
        node: ast.AST,
        on_yield: Callable[[Value], Value] | None = None,
    ) -> Value:
        """Run a function of the project with these arguments."""

    @abstractmethod
    def run_generator(self, made: Object) -> Value:
        """What a generator of the project yields."""

    @abstractmethod
    def ready(self, made: Object) -> None:
        """Run the constructor of an object of the project that has waited so far."""

    # identity and place

    def fresh(self) -> int:
        self._count += 1
        return self._count

    def symbol(self, name: str = "", split: str = "") -> Symbol:
        return Symbol(self.fresh(), name, split)

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def place(self, node: ast.AST) -> Place:
        frame = self.frame
        return Place(frame.module.source.path, node, frame.info.qualname if frame.info else "")

    def stamp(self) -> float:
        """A number that orders settings of modes in time; within a constructor that waited, just after its call."""
        if self.moment is None:
            return self.fresh()
        return self.moment[1] + self.fresh() * 1e-9

    def now(self) -> Turn:
        if self.moment is not None:
            return self.moment[0]
        return Turn(tuple((loop, loop.turn) for loop in self.loops), tuple(frame.call for frame in self.frames))

    def tick(self) -> None:
        effort = self.effort
        effort.steps -= 1
        if effort.steps < effort.alarm:
            effort.look_up(self.frames)

    @property
    def repeats(self) -> bool:
        """Whether this runs in a loop whose turns are not all walked."""
        return any(not loop.exact for loop in self.loops)

    # variables

    def lookup(self, name: str) -> Value | None:
        scope = self.frames[-1].scope
        get, outer = self.store.get, self.parents.get
        while scope is not None:
            value: Value | None = get(("v", scope, name))
            if value is not None:
                return value
            scope = outer(scope)
        return None

    def bind(self, name: str, value: Value) -> None:
        scope = self.frames[-1].scope
        self.store.set(("v", self.store.get(("declared", scope, name)) or scope, name), value)

    def close_over(self) -> Hashable:
        """The present scope, for a function or class defined in it: its variables outlive the call."""
        scope = self.frame.scope
        inner = scope
        while inner is not None and inner not in self.closed_over:
            self.closed_over.add(inner)
            inner = self.parents.get(inner)
        return scope

    # grad mode

    @property
    def grad(self) -> GradMode:
        return self.store.get(("grad",)) or GradMode("unknown")

    # conditions

    def assumed(self, key: Hashable) -> bool | None:
        """What this path takes the condition for; None while undecided."""
        if isinstance(key, tuple) and key and key[0] == "not":
            inner = self.assumed(key[1])
            return None if inner is None else not inner
        value: bool | None = self.store.get(("if", key))
        return equalities.implied(self, key) if value is None and isinstance(key, tuple) else value

    def assume(self, key: Hashable, value: bool) -> None:
        """Take the condition for decided on this path, and what follows from it."""
        if isinstance(key, tuple) and key:
            if key[0] == "not":
                self.assume(key[1], not value)
                return
            if (key[0] == "and" and value) or (key[0] == "or" and not value):
                for part in key[1:]:
                    self.assume(part, value)
        equalities.learn(self.store, key, value)
        self.store.set(("if", key), value)

    # paths

    def capture(self, run: Callable[[], bool]) -> tuple[Delta | None, list[Exit]]:
        """Run a construct, take its effects back, and return them: of its end (None if never reached), its exits."""
        frame, depth = self.frames[-1], len(self.frames)
        outer, loops = frame.sink, len(self.loops)
        frame.sink = sink = Sink(self.store.mark())
        try:
            alive = run()
        except DeadPath:
            alive = False
            del self.frames[depth:], self.loops[loops:]
        finally:
            frame.sink = outer
        normal = self.store.delta(sink.mark) if alive else None
        self.store.undo(sink.mark)
        return normal, sink.exits

    def leave(self, kind: str, value: Value | None = None) -> None:
        sink = self.frame.sink
        sink.exits.append(Exit(kind, value, self.store.delta(sink.mark)))

    def emit_again(self, exits: Sequence[Exit]) -> None:
        """Hand exits on to the enclosing construct."""
        if exits:
            sink = self.frame.sink
            before = self.store.delta(sink.mark)
            sink.exits += [Exit(way.kind, way.value, {**before, **way.delta}) for way in exits]

    def merge(self, deltas: Sequence[Delta], key: Hashable = None) -> None:
        """Continue from all these states at once. `key` is the condition that told the two apart."""
        if len(deltas) == 1:
            self.store.replay(deltas[0])
            return
        get, put = self.store.get, self.store.set
        first, *others = deltas
        for cell in dict.fromkeys(cell for delta in deltas for cell in delta):
            base = get(cell)
            joined: Any = first.get(cell, base)
            for other in others:
                value = other.get(cell, base)
                if value is not joined and value != joined:
                    joined = join_cells(self, cell, [delta.get(cell, base) for delta in deltas], key)
                    break
            if joined is not None:
                put(cell, joined)

    def branch(self, key: Hashable, then: Callable[[], Value], other: Callable[[], Value]) -> Value:
        """An expression that depends on a condition: only the side that holds, or both and their join."""
        known = self.assumed(key)
        if known is not None:
            return then() if known else other()
        results: list[Value] = []
        deltas = []
        for side, holds in ((then, True), (other, False)):

            def run(side: Callable[[], Value] = side, holds: bool = holds) -> bool:
                self.assume(key, holds)
                results.append(side())
                return True

            normal, exits = self.capture(run)
            self.emit_again(exits)
            if normal is not None:
                deltas.append({cell: value for cell, value in normal.items() if cell[0] != "if"})
        if not deltas:
            raise DeadPath
        self.merge(deltas, key)
        return results[0] if len(results) == 1 else join_values(self, results, key)
