"""Where a loop's time goes, in words, numbers and pictures."""

from __future__ import annotations

from statistics import median

from mlcheck.core.finding import Figure
from mlcheck.core.plural import plural
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.probe.measure.speed.time_causes import Cause
from mlcheck.trial.observe.watch import Activity, Phase


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def times(factor: float) -> str:
    return f"{factor:.2g} times" if factor < 99.5 else "a hundred times"


def told(seen: StepTime) -> str:
    """One sentence with the parts of the loop."""
    total, waits, step = (median(getattr(each, name) for each in seen.rounds) for name in ("total", "waits", "step"))
    hands = f"{seen.workers} worker{'s' * (seen.workers != 1)}" if seen.workers else "no worker processes"
    beside = ""
    if seen.workers:
        load, alone = (median(getattr(each, name) for each in seen.rounds) for name in ("load", "alone"))
        beside = f"; by themselves, loading takes {ms(load)} and a step {ms(alone)}"
    return f"of {ms(total)} a batch, {ms(waits)} wait for data and {ms(step)} train, with {hands}{beside}"


def numbers(seen: StepTime, found: Cause) -> dict[str, float]:
    """What the verdict rests on, each the median over the rounds."""
    names = {
        "waits": "waiting, ms",
        "step": "step in the loop, ms",
        "load": "batch alone, ms",
        "alone": "step alone, ms",
    }
    counted = {said: 1e3 * median(getattr(each, name) for each in seen.rounds) for name, said in names.items()}
    counted |= {"workers": seen.workers, "rounds": len(seen.rounds), "gain at most": found.gain}
    loop = seen.phases.get("loop")
    if loop is not None and loop.others is not None:
        counted["cores used by others"] = loop.others
    return counted


def figures(seen: StepTime, found: Cause) -> tuple[Figure, ...]:
    """The parts of a batch as bars, what every process did as a table, and the lines that loading stands on."""
    middle = {name: median(getattr(each, name) for each in seen.rounds) for name in ("waits", "step", "load", "alone")}
    labels = ["waits for data", "trains, in the loop", "loads, by itself", "trains, by itself"]
    shown = [Figure("bars", "A batch", {"labels": labels, "values": [1e3 * v for v in middle.values()], "unit": "ms"})]
    if seen.phases:
        shown.append(_activities(seen))
    if found.shares:
        kinds = [kind for kind, share in found.shares.items() if share >= 0.005]
        rows = [[kind.value, f"{found.shares[kind]:.0%}"] for kind in kinds]
        shown.append(Figure("table", "What loading does", {"columns": ["busy with", "of its time"], "rows": rows}))
    if seen.lines.lines:
        rows = [[str(place), f"{share:.0%}"] for place, share in seen.lines.lines]
        looked = f"Where loading stands ({seen.lines.tool}, {plural(seen.lines.seen, 'look')})"
        shown.append(Figure("table", looked, {"columns": ["line", "share"], "rows": rows}))
    if seen.gpu.looks:
        shown.append(Figure("text", "The GPU meanwhile (NVML)", {"text": str(seen.gpu)}))
    if missing := unavailable(seen):
        shown.append(Figure("text", "Not run", {"text": "\n".join(missing)}))
    return tuple(shown)


_COLUMNS = ["while", "who", "user", "system", "ready, no core", "waits for", "forced / given switches", "disk"]


def _activities(seen: StepTime) -> Figure:
    names = {"loop": "the loop runs", "load": "only loading", "step": "only training"}
    rows = []
    for key, name in names.items():
        phase = seen.phases.get(key)
        if phase is None:
            continue
        rows.append(_row(name, "trainer", phase.trainer))
        if phase.workers:
            rows.append(_row(name, f"each of {plural(phase.workers, 'worker')}", phase.worker))
        rows.append([name, f"the machine, {plural(phase.cores, 'core')}", *_machine(phase)])
    return Figure("table", "Who did what", {"columns": _COLUMNS, "rows": rows})


def _row(phase: str, who: str, did: Activity) -> list[str]:
    waits = ", ".join(f"{kind} {share:.0%}" for kind, share in did.waits.items() if kind != "run" and share >= 0.01)
    delay = "unknown" if did.delay is None else f"{did.delay:.0%}"
    switches = f"{did.forced:.0f} / {did.given:.0f} a second"
    return [phase, who, f"{did.user:.0%}", f"{did.system:.0%}", delay, waits, switches, f"{did.read / 1e6:.3g} MB/s"]


def _machine(phase: Phase) -> list[str]:
    others = "unknown" if phase.others is None else f"{phase.others:.0%} used by others"
    pressures = ((phase.cpu_pressure, "cores"), (phase.io_pressure, "disks"))
    pressure = ", ".join(f"pressure on {what} {share:.0%}" for share, what in pressures if share is not None)
    return [others, "", "", pressure, "", ""]


def unavailable(seen: StepTime) -> list[str]:
    """What this system does not tell, and why."""
    if len(seen.rounds) == 1:
        return []
    missing = []
    if not seen.phases:
        missing.append("states and times of processes: there is no /proc here")
    phase = next(iter(seen.phases.values()), None)
    if phase is not None and phase.cpu_pressure is None:
        missing.append("pressure: /proc/pressure is not there (a kernel without PSI, or a container that hides it)")
    if phase is not None and phase.trainer.delay is None:
        missing.append("time without a core: /proc/PID/schedstat is not there")
    if seen.gpu.why_not:
        missing.append(str(seen.gpu))
    if seen.lines.why_not:
        instead = "; a thread in every process looked instead" if seen.lines.tool else ""
        missing.append(f"py-spy: {seen.lines.why_not}{instead}")
    return missing
