"""What happened in the program, in order, as far as a rule may ask. Checks read these and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING

from mlcheck.core.dataclasses import dataclass, field, fields
from mlcheck.core.finding import Location
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.files.source import Unreadable
from mlcheck.lint.shapes.facts import Broadcast, ReadAcross, Softmax
from mlcheck.lint.touched import Touched
from mlcheck.lint.training import Autocast, Bypass, Choice, Optimizer, Scheduler, Training
from mlcheck.lint.values import NO_TRACES, Traces, Value
from mlcheck.lint.versions import ANY, Versions

if TYPE_CHECKING:
    from mlcheck.lint.sites import Sites


class Place(NamedTuple):
    """A node in a file, and the function it stands in."""

    path: str
    node: ast.AST
    symbol: str

    @property
    def location(self) -> Location:
        line, end = getattr(self.node, "lineno", 0), getattr(self.node, "end_lineno", 0) or 0
        column, last = getattr(self.node, "col_offset", -1) + 1, (getattr(self.node, "end_col_offset", 0) or 0) + 1
        return Location(self.path, line, column, end, last, self.symbol)

    @property
    def spot(self) -> tuple[str, int, int]:
        return self.path, getattr(self.node, "lineno", 0), getattr(self.node, "col_offset", 0)


@dataclass(eq=False, slots=True)
class Loop:
    """One run of a loop. `turn` counts its iterations, `exact` says that each of its items is known and walked once."""

    node: ast.AST
    place: Place
    split: str = ""
    turn: int = 0
    first: int = 0  # objects made in the present iteration have identities from there on
    mark: int = 0  # where in memory's log the present iteration began
    began: int = 0  # what was made before has an identity below
    trains: bool = False  # a backward ran in it
    exact: bool = False


class Turn(NamedTuple):
    """A moment: which loops were running and in which iteration, and which function calls."""

    loops: tuple[tuple[Loop, int], ...]
    calls: tuple[int, ...]

    def later_turn(self, earlier: Turn) -> Loop | None:
        """The loop both moments share in which this one is at least one iteration later."""
        turns = dict(earlier.loops)
        for loop, turn in self.loops:
            if loop in turns and turns[loop] < turn:
                return loop
        return None


class Mode(NamedTuple):
    """A mode a module may be in: `train`, `eval`, `loaded` (in eval mode, as a library hands it out) or `unknown`.

    Set where and when (None: as constructed). Of settings on a module and around it, that of the latest `stamp` counts.
    """

    kind: str
    place: Place | None = None
    when: Turn | None = None
    stamp: float = 0


class GradMode(NamedTuple):
    """`on`, `off` or `unknown`, and the place that switched it."""

    kind: str
    place: Place | None = None


class Grads(NamedTuple):
    """Gradients an optimizer may hold.

    clean; fresh (a backward ran); used (a step took them); stale (a backward added to used ones); added (a backward
    added to what is not known); erased (fresh ones were cleared unseen); unknown. `place` is the backward or the
    clearing, `step` the step that used them; `loop` is the one the backward stands in, `choice` how a test that counts
    batches was answered since, `under` the answers of paths in earlier turns.
    """

    kind: str
    place: Place | None = None
    step: Place | None = None
    loop: ast.AST | None = None
    choice: Choice | None = None
    under: frozenset[tuple[Hashable, bool]] = frozenset()


@dataclass(eq=False, slots=True)
class Forward:
    """A call of a module from outside any module. `trained`: a gradient was later asked of its output.

    `touched` holds the identities of the module and of everything it called; `moded` is yes, no or unknown: whether it
    behaves differently in train and eval mode; `restored`: weights were loaded; `fed` are the calls that its input was
    computed from, `chained` those whose graphs are certainly behind it; `learns`: a step with its gradients may move
    its weights (None: no step); `unread`: nobody takes the result; `loaded`: where it or a part got into that mode;
    `through` is the call by which the function of the innermost loop came to it (None: it stands there itself).
    """

    place: Place
    module: Value
    name: str
    modes: frozenset[Mode]
    grad: GradMode
    when: Turn
    loops: tuple[Loop, ...]
    functions: tuple[str, ...]
    split: str
    moded: str
    frozen: bool
    restored: bool
    touched: Touched = field(default_factory=Touched)
    loaded: set[Place] = field(default_factory=set)
    trained: bool = False
    learns: bool | None = None
    unread: bool = False
    half: Place | None = None
    fed: Traces = NO_TRACES
    chained: frozenset[Forward] = frozenset()
    through: Place | None = None

    @property
    def loop(self) -> Loop | None:
        return self.loops[-1] if self.loops else None


@dataclass(eq=False, slots=True)
class Loss:
    """A call of a loss: its canonical name, what it was given, and the keywords that set it up (`**`: and others).

    The entries of a table, one of which an unknown key takes, share a `choice`: "" if some of them are no losses.
    `handed`: the call of the function around it, where that hands its own arguments on in their order."""

    place: Place
    name: str
    input: Value
    target: Value | None
    settings: Mapping[str, Value] = field(default_factory=dict)
    autocast: Autocast | None = None
    choice: Hashable = None
    handed: Place | None = None


@dataclass(eq=False, slots=True)
class Backward:
    """A backward pass, with the forwards its loss was computed from and the gradient mode around it.

    `unseen`: code that is not known may have had a part in the loss, with parameters of its own; `reached`: the
    optimizers whose parameters it gave gradients for certain; `severed`: where its loss was cut off from all of them;
    `scaled`: a gradient scaler that is switched on scaled it (None: one that may be).
    """

    place: Place
    forwards: frozenset[Forward]
    grad: GradMode
    when: Turn
    unseen: bool = False
    reached: set[Hashable] = field(default_factory=set)
    severed: Place | None = None
    scaled: bool | None = False
    autocast: Autocast | None = None


@dataclass(eq=False, slots=True)
class Step:
    """An optimizer step and the gradients it may have found; `always`: whatever the conditions in its loop.

    `scaling` is what the loss scale had done to them, `scaler` whether the step went through a gradient scaler;
    `decided` are the conditions on its path, and which way each went.
    """

    place: Place
    optimizer: str
    grads: frozenset[Grads]
    when: Turn
    key: Hashable = None
    scaling: frozenset[Grads] = frozenset()
    scaler: bool = False
    always: bool = False
    decided: frozenset[Hashable] = frozenset()


@dataclass(eq=False, slots=True)
class Clip:
    """A gradient clipping: what the loss scale had done to the gradients, and what they were to the optimizers."""

    place: Place
    name: str
    states: frozenset[Grads]
    grads: frozenset[Grads] = frozenset()


class Idle(NamedTuple):
    """A context manager called as a statement, without effect."""

    place: Place
    name: str


@dataclass(slots=True)
class Facts:
    """All facts of one program, each list in the order in which things were seen."""

    forwards: list[Forward] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    clips: list[Clip] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    broadcasts: list[Broadcast] = field(default_factory=list)
    softmaxes: list[Softmax] = field(default_factory=list)
    read_across: list[ReadAcross] = field(default_factory=list)
    bypasses: list[Bypass] = field(default_factory=list)
    training: Training = field(default_factory=Training)
    unreadable: list[Unreadable] = field(default_factory=list)
    sites: Sites = field(init=False)
    torch: Versions = ANY
    _all: list[Sized] = field(init=False)

    def __post_init__(self) -> None:
        self._all = [getattr(self, name) for name in _EVENTS]
        self._all += [getattr(self.training, each.name) for each in fields(self.training)]

    def landmarks(self) -> int:
        """How many of the facts there are that a training or an evaluation consists of."""
        return len(self.forwards) + len(self.losses) + len(self.backwards) + len(self.steps) + len(self.clips)

    def total(self) -> int:
        """How many facts there are by now."""
        return sum(map(len, self._all))

    def counts(self) -> dict[str, int]:
        """How many places of each kind there are to judge; a place counts once, however often it was walked."""
        kinds: dict[str, Sequence[Forward | Loss | Backward | Step | Clip | Optimizer | Scheduler]] = {
            "model call": self.forwards,
            "loss": self.losses,
            "backward pass": self.backwards,
            "optimizer step": self.steps,
            "gradient clipping": self.clips,
            "optimizer": list(self.training.optimizers.values()),
            "learning-rate scheduler": list(self.training.schedulers.values()),
        }
        return {kind: len({event.place.spot for event in events}) for kind, events in kinds.items()}


_EVENTS = tuple(each.name for each in fields(Facts) if each.default_factory is list)
