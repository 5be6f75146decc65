"""seed-after-model: the only seed of a program is set when the model has already drawn its first weights."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import Call, Class, Context, File, Function, Sites
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.layers.modules import holds_parameters, text_of
from mlcheck.lint.sites.origins import callers, given, origins
from mlcheck.lint.sites.ranks import mentions_rank

LOOKS_AT = "seed"
WORDS = ("seed",)
_SEEDS = (
    *("torch.manual_seed", "torch.random.manual_seed", "transformers.set_seed", "accelerate.utils.set_seed"),
    *("lightning.seed_everything", "lightning.pytorch.seed_everything", "pytorch_lightning.seed_everything"),
)
_ANEW = pattern(r"load_state_dict|reset_parameters|\.apply\(|init\w*\(|from_pretrained|deepcopy")
_CONSTANT = pattern(r"\.zero_\(\)|\bzeros_\(|\bconstant_\(|\.fill_\(")
"""What a class may start its weights with that is drawn by nobody."""
_OTHER_SEED = pattern(r"\bseed\w*\(|_seed\w*\(|fork_rng|set_rng_state")


def check(facts: Facts) -> Iterator[Finding]:
    seeds = list(facts.sites.calls(*_SEEDS))
    facts.sites.seen[LOOKS_AT] = len(seeds)
    if len(seeds) != 1:
        return
    seed = _asked(facts.sites, seeds[0])
    if seed is None or mentions_rank(seed.node) or not _is_unconditional(seed):
        return
    made = _made_before(seed) or _handed_in(facts.sites, seed)
    if made is not None and not _is_seeded_otherwise(facts.sites, seeds[0], seed):
        yield Finding(
            f"`{made[0]}` draws its initial weights before the seed is set: they differ from run to run",
            made[1],
            help="seed first, before the model is made",
            related=(seed.place.location,),
        )


def _asked(sites: Sites, seed: Call) -> Call | None:
    """The call itself; where it stands in a helper that does nothing but seed, the one call of that."""
    helper = seed.function
    if helper is None or "seed" not in helper.name.lower():
        return seed
    found = list(callers(sites, helper))
    return found[0] if len(found) == 1 and helper.cls is None else None


def _is_unconditional(seed: Call) -> bool:
    """Whether it stands right in a function or module, or behind nothing but `if args.seed is not None:`."""
    for outer in seed.context.outwards():
        if outer.kind == "function":
            return True
        if isinstance(outer.node, ast.If) and re.search(r"seed|__name__", ast.unparse(outer.node.test)):
            continue
        if outer.kind != "module":
            return False
    return True


def _made_before(seed: Call) -> tuple[str, Location] | None:
    """The first new model above the seed in the same block, where nothing beneath gives it other weights."""
    block = _block(seed)
    at = next((i for i, statement in enumerate(block) if seed.node in set(walk(statement))), len(block))
    made = [
        (ast.unparse(statement.targets[0]), statement)
        for statement in block[:at]
        if isinstance(statement, ast.Assign) and _is_kept(seed, statement.targets[0])
        if _is_new(seed.file, statement.value, seed.context)
    ]
    if not made:
        return None
    later = "\n".join(ast.unparse(statement) for statement in block[at + 1 :])
    if any("." in name for name, _ in made) and seed.cls is not None:  # for its other methods
        later += "\n".join(method.text for method in seed.cls.methods.values() if method is not seed.function)
    if at == len(block) or _ANEW.search(later) or not re.search(r"backward\(|train|fit|optim|step\(", later):
        return None
    found = (each for each in made if re.search(rf"\b{re.escape(each[0])}\b", later))
    return next(((name, seed.file.place(line, seed.context).location) for name, line in found), None)


def _is_kept(seed: Call, target: ast.expr) -> bool:
    """A variable, or an attribute that a constructor sets."""
    constructs = seed.function is not None and seed.function.name == "__init__"
    return isinstance(target, ast.Name) or (constructs and bool(own_attribute(target, seed.function)))


def _handed_in(sites: Sites, seed: Call) -> tuple[str, Location] | None:
    """The new model that the only call of a function hands it, which seeds first and then trains it."""
    function = seed.function
    body = "\n".join(map(ast.unparse, function.node.body)) if function is not None else ""
    if function is None or seed.loops or "load_state_dict" in seed.file.text or _ANEW.search(body):
        return None
    trains = function.cls.text if function.name == "__init__" and function.cls is not None else function.text
    asked = list(callers(sites, function))
    if len(asked) != 1 or asked[0].loops or "backward(" not in trains:
        return None
    taker = _constructor(function) or function
    if taker is not function:
        trains = taker.text
    new = {
        name: made[0]
        for name in taker.parameters
        if name != taker.receiver
        for origin in given(sites, taker, name)
        if len(made := origins(origin.file, origin.node, origin.context)) == 1
        and _is_new(made[0].file, made[0].node, made[0].context)
    }
    name, model = next(iter(new.items())) if len(new) == 1 else ("", None)  # of several, one may be loaded elsewhere
    if model is None or not re.search(rf"\b{name}\.parameters\(", trains):
        return None
    return name, model.file.place(model.node, model.context).location


def _constructor(function: Function) -> Function | None:
    """What took the model that a method trains: the constructor of its class, of which there is one object."""
    init = function.cls.find("__init__") if function.cls is not None else None
    made = list(callers(function.file.sites, init)) if init is not None else []
    return init if len(made) == 1 and not made[0].loops else None


def _block(seed: Call) -> list[ast.stmt]:
    """The body of the function, of `if __name__ == "__main__":`, or of the file."""
    for outer in seed.context.outwards():
        if isinstance(outer.node, ast.If) and "__name__" in ast.unparse(outer.node.test):
            return outer.node.body
    return seed.function.node.body if seed.function is not None else seed.file.module.source.tree.body


def _is_new(file: File, node: ast.expr, context: Context) -> bool:
    if not holds_parameters(file, node, context) or re.search(r"pretrained|deepcopy|weights", ast.unparse(node)):
        return False
    cls = file.resolve(node.func, context) if isinstance(node, ast.Call) else None
    return not isinstance(cls, Class) or not _CONSTANT.search(text_of(cls))


def _is_seeded_otherwise(sites: Sites, seed: Call, asked: Call) -> bool:
    """Whether anything else in the program may seed: another call with the word in its name."""
    known = {seed.node, asked.node}
    own = seed.function.node if isinstance(seed.function, Function) else None
    for file in sites.mentioning(["seed", "rng"], tests=True):
        for node in walk(file.module.source.tree):
            if not isinstance(node, ast.Call) or node in known or (own is not None and _inside(own, node)):
                continue
            if _OTHER_SEED.search(f"{ast.unparse(node.func)}(") and not _is_of_other_library(node):
                return True
    return False


def _inside(function: ast.AST, node: ast.AST) -> bool:
    return node in set(walk(function))


def _is_of_other_library(node: ast.Call) -> bool:
    """`random.seed(0)`, `numpy.random.seed(0)`: weights are drawn from torch's generator alone."""
    return ast.unparse(node.func) in ("random.seed", "np.random.seed", "numpy.random.seed")
