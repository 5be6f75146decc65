"""timing-without-sync: the clock is read while the device is still at work."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name, stores, walk
from mlcheck.lint.sites import Call, File
from mlcheck.lint.sites.guards import told_conditions
from mlcheck.lint.sites.managers import blocks_of, ended_by

LOOKS_AT = "clock"
_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer", "time.time_ns")
_SYNCS = ("synchronize", ".item(", ".cpu(", ".numpy(", ".tolist(", "elapsed_time", "print(", "float(", "barrier")
_QUEUES: tuple[str, ...] = ("cuda", "to", "no_grad", "inference_mode", "autocast", "zero_grad", "backward", "float")
_QUEUES += ("half", "ones", "zeros", "randn", "rand", "time", "perf_counter", "monotonic", "default_timer", "time_ns")
_MOVES = pattern(r"cuda|device|\.to\(")
_RUNS = ("model", "net", "network", "module", "generator", "encoder", "decoder")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    if not any(True for _ in facts.sites.mentioning(["cuda"])):
        return
    for file in facts.sites.mentioning(["time"]):
        for clock in file.calls("time", "perf_counter", "monotonic", "default_timer", "time_ns"):
            if file.resolve(clock.node.func, clock.context) not in _CLOCKS:
                continue
            facts.sites.seen[LOOKS_AT] += 1
            if clock.function is not None and "cpu" in clock.function.name.lower().split("_"):
                continue
            asked = map(ast.unparse, told_conditions(file, clock.context))
            if any("cuda" in test or "device" in test for test in asked):
                continue
            entered = next(_entered(clock), None)
            if entered is not None:
                yield _finding(clock, entered.node, entered.place)
            timed = _timed(file, clock) if "cuda" in file.text and "torch" in file.text else None
            if timed is not None and not _stays_on_cpu(clock, timed):
                yield _finding(clock, timed, file.place(timed, clock.context))


def _finding(clock: Call, timed: ast.Call, place: Place) -> Finding:
    return Finding(
        "The device is still at work when the clock is read: this is the time to queue "
        f"`{ast.unparse(timed.func)}`, not to run it",
        clock.place.location,
        help="call `torch.cuda.synchronize()` before each reading of the clock, or use `torch.cuda.Event`",
        related=(place.location,),
    )


def _entered(clock: Call) -> Iterator[Call]:
    """What is timed by `with timer():`, where the clock is read again in the end and nothing in it waits."""
    manager = ended_by(clock)
    text = "" if manager is None else manager.text
    if manager is None or any(word in text for word in _SYNCS):
        return
    for block in blocks_of(manager):
        inside = block.call.file
        timed = _only_model_call(inside, _unrolled(block.body), block.call)
        if timed is not None and "cuda" in inside.text and not _stays_on_cpu(block.call, timed):
            yield Call(inside, timed, block.call.context)


def _unrolled(body: list[ast.stmt]) -> list[ast.stmt]:
    """The lines of a block; of `for _ in range(50):` those in it."""
    lines: list[ast.stmt] = []
    for line in body:
        again = isinstance(line, ast.For) and isinstance(line.iter, ast.Call) and last_name(line.iter.func) == "range"
        lines += line.body if again and isinstance(line, ast.For) else [line]
    return lines


def _stays_on_cpu(clock: Call, timed: ast.Call) -> bool:
    """`model = Net()` and `model(x)`, where the file moves neither of the two: other things may be on the device."""
    file, function = clock.file, clock.function
    names = {node.id for node in walk(timed) if isinstance(node, ast.Name)}
    if not isinstance(timed.func, ast.Name) or "set_default_device" in file.text:
        return False
    nodes = function.nodes if function is not None else file.nodes_in(file.module.source.tree)
    lines = [node for node in nodes if isinstance(node, ast.Assign | ast.Expr)]
    own = [line for line in lines if any(isinstance(node, ast.Name) and node.id in names for node in walk(line))]
    made = any(isinstance(line, ast.Assign) and stores(line, timed.func.id) for line in own)
    return made and not any(_MOVES.search(file.module.text_of(line)) for line in own)


def _timed(file: File, clock: Call) -> ast.Call | None:
    """The call of a model that stands alone between this reading, the later one, and the one before it."""
    body, place = _block(file, clock)
    if body is None or not isinstance(clock.context.node, ast.AST):
        return None
    end = body[place]
    starts = [name for name in _names_in(end) if name]
    for index in range(place - 1, -1, -1):
        statement = body[index]
        if isinstance(statement, ast.Assign) and _is_reading(file, statement.value, clock):
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id in starts:
                return _only_model_call(file, body[index + 1 : place], clock)
    return None


def _only_model_call(file: File, between: list[ast.stmt], clock: Call) -> ast.Call | None:
    text = "\n".join(file.module.text_of(statement) for statement in between)
    if not between or any(word in text for word in _SYNCS):
        return None
    if any(isinstance(statement, ast.For | ast.While) for statement in between):
        return None
    words = (n.slice for s in between for n in walk(s) if isinstance(n, ast.Subscript))
    if any(isinstance(word, ast.Constant) and isinstance(word.value, str) for word in words):
        return None  # `found["scores"]`: a detector that hands out boxes has sorted them, and waited for that
    calls = [node for statement in between for node in walk(statement) if isinstance(node, ast.Call)]
    names = [ast.unparse(node.func).rpartition(".")[2].lower() for node in calls]
    if not all(name in _RUNS or name in _QUEUES for name in names):
        return None
    return next((node for node, name in zip(calls, names, strict=True) if name in _RUNS), None)


def _block(file: File, clock: Call) -> tuple[list[ast.stmt] | None, int]:
    """The list of statements that the reading stands in, and its place there."""
    for node in walk(clock.function.node if clock.function is not None else file.module.source.tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                for index, statement in enumerate(block):
                    if _is_simple(statement) and any(part is clock.node for part in walk(statement)):
                        return block, index
    return None, 0


def _is_simple(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Return | ast.AnnAssign)


def _is_reading(file: File, node: ast.expr, clock: Call) -> bool:
    return isinstance(node, ast.Call) and file.resolve(node.func, clock.context) in _CLOCKS


def _names_in(statement: ast.stmt) -> list[str]:
    return [node.id for node in walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
