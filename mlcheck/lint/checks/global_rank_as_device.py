"""global-rank-as-device: a process takes the GPU that its rank among all machines numbers."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import OPEN, Call
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.ranks import DDP, INIT

LOOKS_AT = "distributed start"
WORDS = ("init_process_group",)
_ASKED = ("torch.distributed.get_rank",)
_READ = ("os.getenv", "os.environ.get", "os.environ.pop")
_LOCAL = ("LOCAL_RANK", "local_rank")
_ONE_MACHINE = ("device_count", "SLURM", "VISIBLE_DEVICES", "standalone", "spawn(")


def check(facts: Facts) -> Iterator[Finding]:
    starts = list(facts.sites.calls(INIT))
    facts.sites.seen[LOOKS_AT] = len(starts)
    given = [(start, start.argument("rank", 4)) for start in starts]
    if not starts or any(rank is not None and not _all_global(start, rank) for start, rank in given):
        return
    if any(True for _ in facts.sites.mentioning(_ONE_MACHINE, tests=True)):
        return
    chosen = [(call, call.argument("device", 0)) for call in facts.sites.calls("torch.cuda.set_device")]
    chosen = chosen or [(wrap, _listed(wrap)) for wrap in facts.sites.calls(DDP)]
    known = [(call, _all_global(call, number)) for call, number in chosen]
    if any(True for _ in facts.sites.mentioning(_LOCAL, tests=True)) and not all(found for _, found in known):
        return  # which may be for a start of another kind
    for call, found in known:
        if found:
            yield Finding(
                "This is the rank among the processes of all machines: a second machine has no GPU with that number",
                call.place.location,
                help='take the rank on this machine, `int(os.environ["LOCAL_RANK"])`',
                related=(found[0].file.place(found[0].node, found[0].context).location,),
            )


def _all_global(call: Call, number: ast.expr | None) -> list[Origin]:
    """Where a number may come from, if all of that is the rank among all processes."""
    found = origins(call.file, number, call.context) if number is not None and number is not OPEN else []
    return found if all(map(_is_global, found)) else []


def _listed(wrap: Call) -> ast.expr | None:
    """`rank` of `device_ids=[rank]`."""
    given = wrap.argument("device_ids", 1)
    return given.elts[0] if isinstance(given, ast.List) and len(given.elts) == 1 else None


def _is_global(origin: Origin) -> bool:
    """`dist.get_rank()`, `int(os.environ["RANK"])`."""
    node, file, context = origin.node, origin.file, origin.context
    if isinstance(node, ast.Call) and file.called(node, context) == "builtins.int" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Subscript):
        return file.resolve(node.value, context) == "os.environ" and file.constant(node.slice, context) == "RANK"
    if not isinstance(node, ast.Call):
        return False
    named = file.called(node, context)
    if named in _READ:
        return bool(node.args) and file.constant(node.args[0], context) == "RANK"
    return named in _ASKED and not node.args
