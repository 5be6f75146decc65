"""reseeded-alike: a generator is set to the same seed in every epoch, step or sample."""

import ast
from collections.abc import Iterable, Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites import OPEN, Call, Function, Sites
from mlcheck.lint.sites.data.fixed_seeds import is_fixed, is_one
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.origins import callers, returns

LOOKS_AT = "random generator"
WORDS = ("seed", "RandomState", "default_rng")
_SEEDS = (
    *("torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.random.manual_seed"),
    *("random.seed", "numpy.random.seed"),
)
_GENERATORS = ("numpy.random.RandomState", "numpy.random.default_rng", "random.Random")
_DATA = ("torch.utils.data.Dataset", "torchvision.datasets.VisionDataset", "torchvision.datasets.ImageFolder")
_DRAWS = (
    "random",
    "rand",
    "integers",
    "randn",
    "randint",
    "randperm",
    "uniform",
    "normal",
    "choice",
    "sample",
    "shuffle",
    "crop",
)
_HELD_OUT = ("test", "val", "eval", "fixed", "determin", "synthetic", "toy", "fake", "dummy")


def check(facts: Facts) -> Iterator[Finding]:
    seeds = [*facts.sites.calls(*_SEEDS), *_of_generators(facts.sites)]
    facts.sites.seen[LOOKS_AT] = len(seeds)
    for call in seeds:
        if conditions(call.context) or not call.node.args:
            continue
        if not is_fixed(call, call.node.args[0]) and not _is_handed(call, call.node.args[0]):
            continue
        if _in_dataset(call):
            yield _for_sample(call)
        elif _in_training_loop(call):
            yield _again(call)
    yield from map(_for_sample, _made_for_sample(facts.sites))
    for call in {each.place.spot: each for seed in seeds for each in _by_function(seed)}.values():
        yield _again(call)


def _made_for_sample(sites: Sites) -> Iterator[Call]:
    """`rng = np.random.RandomState(self.seed)` in `__getitem__`: a new generator for each sample, from one seed."""
    for call in sites.calls(*_GENERATORS):
        if call.node.args and not conditions(call.context) and is_fixed(call, call.node.args[0]) and _in_dataset(call):
            yield call


def _again(call: Call) -> Finding:
    return Finding(
        "Every iteration of the training loop starts with the same random numbers",
        call.place.location,
        help="seed once before the loop, or with something that changes, as `seed + epoch`",
    )


def _for_sample(call: Call) -> Finding:
    return Finding(
        "Every sample is made with the same random numbers: all are augmented alike, epoch after epoch",
        call.place.location,
        help="seed once outside, or with something that changes, as the index and the epoch",
    )


def _by_function(seed: Call) -> Iterator[Call]:
    """`set_seed(42)` right in a loop that trains, of a function that seeds with what it is given."""
    function, given = seed.function, seed.node.args[0] if seed.node.args else None
    if function is None or function.cls is not None or seed.context.node is not function.node:
        return
    settings = given.value if isinstance(given, ast.Attribute) and is_fixed(seed, given) else given
    if not isinstance(settings, ast.Name) or settings.id not in function.parameters:
        return
    if len(seed.file.bindings(settings.id, seed.context)) != 1 or not _only_seeds(function):
        return
    for call in callers(seed.file.sites, function):
        value = call.argument(settings.id, list(function.parameters).index(settings.id))
        value = function.parameters[settings.id] if value is None else value
        if value is None or value is OPEN:
            continue
        if not (is_fixed(call, value) if settings is given else is_one(call, value)):
            continue
        if _is_in_loop(call) or _begins_epoch(call):
            yield call


def _begins_epoch(call: Call) -> bool:
    """In a function that trains a model it is given, and that a loop calls again and again."""
    function = call.function
    if function is None or call.loops or call.context.node is not function.node or not _trains(function.nodes):
        return False
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    clipped = [part for node in calls if last_name(node.func).startswith("clip_grad") for part in node.args]
    if any(node not in clipped and _makes_anew(call, node) for node in calls):
        return False
    above = list(callers(call.file.sites, function))
    return bool(above) and all(_is_in_loop(each, trains=True) for each in above)


def _only_seeds(function: Function) -> bool:
    """Whether it returns nothing: what it is called for is the state it leaves the generators in."""
    return not any(isinstance(node, ast.Return | ast.Yield) and node.value is not None for node in function.nodes)


def _of_generators(sites: Sites) -> Iterator[Call]:
    """`torch.Generator().manual_seed(0)`: made and seeded at once."""
    for file in sites.mentioning(["Generator("]):
        for call in file.calls("manual_seed"):
            owner = call.owner
            if isinstance(owner, ast.Call) and file.resolve(owner.func, call.context) == "torch.Generator":
                yield call


def _is_handed(call: Call, seed: ast.expr) -> bool:
    """Whether the function around is given the same seed at every call: a parameter that nothing here changes."""
    function = call.function
    if function is None or call.loops or not isinstance(seed, ast.Name) or seed.id not in function.parameters:
        return False
    if len(call.file.bindings(seed.id, call.context)) != 1:
        return False
    position = list(function.parameters).index(seed.id) - (1 if function.receiver else 0)
    above = list(callers(call.file.sites, function))
    given = [each.argument(seed.id, position) or function.parameters[seed.id] for each in above]
    return bool(above) and all(
        seed is not None and seed is not OPEN and is_fixed(each, seed) for each, seed in zip(above, given, strict=True)
    )


def _in_dataset(call: Call) -> bool:
    """In `__getitem__` of a data set that draws at random afterwards, and is not one for evaluation."""
    function = call.function
    if function is None or function.cls is None or function.name != "__getitem__" or call.loops:
        return False
    names = f"{function.cls.name} {function.file.name}".lower()
    if any(word in names for word in _HELD_OUT) or not any(base in _DATA for base in function.cls.libraries):
        return False
    later = [node for node in function.nodes if isinstance(node, ast.Call) and node.lineno > call.node.lineno]
    return any(_draws(call.file.resolve(node.func, call.context), node) for node in later)


def _draws(named: object, node: ast.Call) -> bool:
    """A draw, or a call of a function of the project that makes one; a list in the same order each time is meant."""
    inside = named.nodes if isinstance(named, Function) else []
    calls = [last_name(each.func) for each in inside if isinstance(each, ast.Call)]
    drawn = last_name(node.func) in _DRAWS and last_name(node.func) != "shuffle"
    return drawn or any(name in _DRAWS and name != "crop" for name in calls)


def _in_training_loop(call: Call) -> bool:
    """Right in a loop that trains, or in a function that is called there and draws after it."""
    function = call.function
    if call.loops or function is None:
        return _is_in_loop(call)
    if any(word in function.name.lower() for word in (*_HELD_OUT, "seed", "init", "setup", "sampl", "split", "plot")):
        return False
    if call.context.node is not function.node:
        return False
    drawn = call.file.calls(*_DRAWS, "randn_like", "rand_like", "randint_like", "bernoulli")
    if not any(other.function is function and other.node.lineno > call.node.lineno for other in drawn):
        return False
    above = list(callers(call.file.sites, function))
    makes = any(isinstance(node, ast.Call) and _makes_anew(call, node) for node in function.nodes)
    trains = _trains(function.nodes) and not makes
    return bool(above) and all(_is_in_loop(each, trains) for each in above)


def _is_in_loop(call: Call, trains: bool = False) -> bool:
    """Right in a loop that trains: by a backward pass of its own, after the call, or in a loop inside it.

    `trains`: the function that is called does so itself.
    """
    if not call.loops or call.context.node is not call.loops[0].node:
        return False
    loop = call.loops[0].node
    if not isinstance(loop, ast.For | ast.While) or any(_returns(statement) for statement in loop.body):
        return False
    inside = [node for node in walk(loop) if isinstance(node, ast.Call) and node.lineno >= call.node.lineno]
    makes = [node for node in walk(loop) if isinstance(node, ast.Call) and _makes_anew(call, node)]
    return (trains or _trains(inside)) and not makes and not _is_stepped_anew(loop)


def _is_stepped_anew(loop: ast.For | ast.While) -> bool:
    """Whether what is stepped in the loop is given its name there: another optimizer in each turn."""
    nodes = walk(loop)
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    owners = [n.value for n in nodes if isinstance(n, ast.Attribute) and n.attr == "step"]
    return any(isinstance(owner, ast.Name) and owner.id in bound for owner in owners)


def _trains(nodes: Iterable[ast.AST]) -> bool:
    last = {node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    return {"backward", "step"} <= last


def _makes_anew(seed: Call, node: ast.Call) -> bool:
    """A model or an optimizer that is made in the loop, perhaps by a function: one experiment in each turn."""
    named = seed.file.resolve(node.func, seed.context)
    if isinstance(named, Function):
        values = [each for each in returns(named) if isinstance(each, ast.Call)]
        return any(_is_maker(last_name(value.func)) for value in values)
    return _is_maker(last_name(node.func))


def _is_maker(name: str) -> bool:
    return name in ("SGD", "Adam", "AdamW", "RMSprop", "parameters", "deepcopy", "load_state_dict") or (
        name[:1].isupper() and name.endswith(("Net", "Model", "Classifier", "MLP", "CNN", "Network"))
    )


def _returns(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return)
