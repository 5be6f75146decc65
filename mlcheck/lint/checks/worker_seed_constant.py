"""worker-seed-constant: every worker process draws the same random numbers."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Context, File, Function, canonical
from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.running import run_by

LOOKS_AT = "worker_init_fn"
WORDS = ("DataLoader",)
_SEEDS = ("numpy.random.seed", "random.seed", "torch.manual_seed", "torch.random.manual_seed")
_PLAIN = (ast.Constant, ast.Name, ast.Attribute)
_DIFFERS = pattern(r"initial_seed|worker_info|getpid|time|urandom|random\.(?!seed)|uuid|global_rank|current_process")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = sum(
        loader.call.argument("worker_init_fn", 9) is not None for loader in facts.sites.once(loaders)
    )
    for loader in facts.sites.once(loaders):
        given = loader.call.argument("worker_init_fn", 9)
        if given is None:
            continue
        node, context = loader.call.file.value(given, loader.call.context)
        begun = _already_called(loader.call.file, node, context)
        if begun is not None:
            yield Finding(
                f"`{begun.name}` is called here, once, and returns None: no worker runs it",
                loader.call.file.place(node, context).location,
                help=f"pass the function itself: `worker_init_fn={begun.name}`",
                related=(begun.place().location,),
            )
        workers = loader.call.argument("num_workers", 5)
        seeding = _seeding(loader.call.file, node, context) if workers is not None else None
        if seeding is not None:
            file, call, where = seeding
            yield Finding(
                "Every worker is given the same seed: all of them draw the same random augmentations",
                file.place(call, where).location,
                help="add the worker's number to the seed: `np.random.seed(seed + worker_id)`",
                related=(loader.call.place.location,),
            )


def _already_called(file: File, node: ast.expr, context: Context) -> Function | None:
    """The function of `worker_init_fn=seed_worker(0)`, where it returns nothing."""
    named = file.resolve(node.func, context) if isinstance(node, ast.Call) else None
    if not isinstance(named, Function) or named.node.decorator_list or isinstance(named.node, ast.AsyncFunctionDef):
        return None
    gives = any(isinstance(part, ast.Yield | ast.YieldFrom) for part in named.nodes) or any(
        True for _ in returns(named)
    )
    return None if gives else named


def _seeding(file: File, node: ast.expr, context: Context) -> tuple[File, ast.Call, Context] | None:
    """The call that seeds alike in every worker, in the function or lambda given."""
    if isinstance(node, ast.Lambda):
        arguments, body, inner, text = node.args, node.body, context, ast.unparse(node.body)
        names = {part.arg for part in walk(arguments) if isinstance(part, ast.arg)}
        nodes: list[ast.AST] = walk(body)
    else:
        run = run_by(file, node, context)
        if run is None:
            return None
        named = run.function
        file, inner, text = named.file, named.inner, "\n".join(ast.unparse(line) for line in named.node.body)
        told = (named.node.args.vararg, named.node.args.kwarg)
        names = {*named.parameters, *(each.arg for each in told if each is not None)} - {named.receiver}
        names -= {name for name, each in run.given.items() if isinstance(each.node, _PLAIN)}
        nodes = [child for line in named.node.body for child in walk(line)]
    if _DIFFERS.search(text) or any(isinstance(child, ast.Name) and child.id in names for child in nodes):
        return None
    for child in nodes:
        if isinstance(child, ast.Call):
            name = file.resolve(child.func, inner)
            seeds = isinstance(name, str) and canonical(name) in _SEEDS and bool(child.args)
            if seeds or (isinstance(name, Function) and _seeds_by_argument(name)):
                return file, child, inner
    return None


def _seeds_by_argument(function: Function) -> bool:
    """`def seed_all(seed=0): np.random.seed(seed)`, which does nothing that could tell the workers apart."""
    text = function.file.module.text_of(function.node)
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    named = [(call, function.file.resolve(call.func, function.inner)) for call in calls]
    if _DIFFERS.search(text) or any(isinstance(name, Function) for _, name in named):
        return False
    return any(call.args and isinstance(name, str) and canonical(name) in _SEEDS for call, name in named)
