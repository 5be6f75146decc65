"""weight-decay-misplaced: the parameters that were set apart from weight decay get it, or the others do not."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts, Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import OPEN, Call, Context, File
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.training.alike_groups import alike, told_apart_later
from mlcheck.lint.sites.training.misplaced_settings import in_wrong_place
from mlcheck.lint.sites.training.optimizers import optimizers
from mlcheck.lint.sites.training.sorting import filled, sorted_by_test

LOOKS_AT = "optimizer"
_SPARED = pattern(r"(?:^|_)(?:no|non|without|not)_?(?:weight_)?(?:decay|wd|decayed)|no_?wd|(?:^|_)undecayed")
_DECAYED = pattern(r"(?:^|_)(?:weight_)?(?:decay|decayed|wd)(?:_|$)")
_SMALL = pattern(r"bias|norm|\bbn\b|ln_|\.ndim <= 1|\.ndim == 1|\.ndim < 2|dim\(\) == 1|dim\(\) <= 1|shape\) == 1")
_LARGE = pattern(r"\.ndim > 1|\.ndim >= 2|dim\(\) > 1|dim\(\) >= 2|shape\) > 1|shape\) >= 2")
_NORMS = tuple(
    f"torch.nn.{name}"
    for name in ("LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm2d")
)
_LIBRARIES = ("transformers", "timm", "pytorch_transformers", "torchvision", "detectron2", "hub.load")


def check(facts: Facts) -> Iterator[Finding]:
    made = facts.sites.once(optimizers)
    facts.sites.seen[LOOKS_AT] = len(made)
    for call in made:
        yield from _groups_exchanged(call)
        yield from _groups_alike(facts, call)
    for call, given, taken, place in in_wrong_place(facts.sites):
        yield Finding(
            f"`{given}` stands in the place of `{taken}`, and is taken for it",
            call.file.place(place, call.context).location,
            help=f"give it by its name: `weight_decay={given}`" if "decay" in given else f"`{taken}=...` by its name",
        )
    for file in facts.sites.mentioning(["decay"]):
        if "named_parameters()" in file.text:
            yield from _sorted_the_wrong_way(file)
            yield from _names_of_nobody(facts, file)
            yield from _tests_of_nobody(facts, file)
    yield from _kinds_of_nobody(facts)


def _groups_exchanged(optimizer: Call) -> Iterator[Finding]:
    """`{"params": no_decay, "weight_decay": 0.1}`, and the same group without a decay of its own."""
    params, decays = optimizer.argument("params", 0), optimizer.argument("weight_decay")
    for origin in origins(optimizer.file, params, optimizer.context) if params is not None else ():
        groups = origin.node.elts if isinstance(origin.node, ast.List | ast.Tuple) else []
        for group in groups:
            if not isinstance(group, ast.Dict) or None in group.keys:
                continue
            items = {
                key.value: value
                for key, value in zip(group.keys, group.values, strict=True)
                if isinstance(key, ast.Constant)
            }
            kind, given = _kind(items.get("params")), items.get("weight_decay")
            if kind == "spared" and _decays(origin.file, given, origin.context):
                what = "gets weight decay, though its name says that it is to have none"
            elif kind == "decayed" and origin.file.constant(given, origin.context) in (0, 0.0):
                what = "gets no weight decay, though its name says that it is to have some"
            elif kind == "spared" and given is None and _decays(optimizer.file, decays, optimizer.context):
                what = "takes the weight decay of the optimizer, as it has none of its own"
            else:
                continue
            yield Finding(
                f"`{ast.unparse(items['params'])}` {what}",
                origin.file.place(group, origin.context).location,
                help='the group that decays with `"weight_decay": weight_decay`, the other with `"weight_decay": 0.0`',
                related=(optimizer.place.location,),
            )


def _groups_alike(facts: Facts, optimizer: Call) -> Iterator[Finding]:
    """`if not any(k in n for k in no_decay)` with a decay, and `if any(...)` with the same."""
    params = optimizer.argument("params", 0)
    for origin in origins(optimizer.file, params, optimizer.context) if params is not None else ():
        groups = origin.node.elts if isinstance(origin.node, ast.List | ast.Tuple) else []
        for group, test in alike(origin.file, groups, origin.context) or ():
            decay = next(value for key, value in zip(group.keys, group.values, strict=True) if _says_decay(key))
            meant = "not " not in test and (_SMALL.search(test) or re.search(r"\bin \w*no_?(?:decay|wd)", test.lower()))
            if meant and _decays(origin.file, decay, origin.context) and not told_apart_later(facts.sites):
                yield Finding(
                    "The parameters that are set apart get the same weight decay as the others: "
                    f"`{ast.unparse(decay)}`",
                    origin.file.place(group, origin.context).location,
                    help='`"weight_decay": 0.0` for the biases and norms',
                    related=(optimizer.place.location,),
                )


def _says_decay(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "weight_decay"


def _decays(file: File, node: ast.expr | None, context: Context) -> bool:
    """Whether it is a number that is not 0, or the setting for weight decay itself."""
    if node is None or node is OPEN:
        return False
    value = file.constant(node, context)
    if isinstance(value, int | float):
        return value != 0
    return ast.unparse(node).rpartition(".")[2] in ("weight_decay", "wd")


def _kind(node: ast.expr | None) -> str:
    """What the name of a list of parameters says about them: spared, decayed or nothing."""
    name = last_name(node).lower()
    return "spared" if _SPARED.search(name) else "decayed" if _DECAYED.search(name) else ""


def _sorted_the_wrong_way(file: File) -> Iterator[Finding]:
    """`if name.endswith("bias"): decay.append(p)`, the rest into `no_decay`; `if p.ndim > 1: no_decay.append(p)`."""
    if not _SMALL.search(file.text) and not _LARGE.search(file.text):
        return
    for scope, context in file.scopes():
        for sorted_ in sorted_by_test(file, file.nodes_in(scope), context):
            test = ast.unparse(sorted_.test)
            if " not " in f" {test} " or "!=" in test:
                continue
            small, large = _SMALL.search(test) is not None, _LARGE.search(test) is not None
            wrong = ("decayed", "spared") if small else ("spared", "decayed")
            if small != large and (_kind(sorted_.held), _kind(sorted_.other)) == wrong:
                yield Finding(
                    "Biases and norms are put among the parameters that decay, the others among those that do not",
                    file.place(sorted_.node, context).location,
                    help="exchange the branches",
                )


def _names_of_nobody(facts: Facts, file: File) -> Iterator[Finding]:
    """`no_decay = ["bias", "LayerNorm.weight"]` for a model whose norms have other names."""
    norms = _norms(facts)
    scopes = [file.walk.module, *(defined.inner for defined in file.walk.defined)]
    bindings = [(name, found[0]) for scope in scopes for name, found in scope.scope.bindings.items() if len(found) == 1]
    for name, binding in dict(bindings).items():
        value = binding.value
        if not _SPARED.search(name.lower()) or not isinstance(value, ast.List | ast.Tuple) or not norms:
            continue
        words = [part.value for part in value.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(words) != len(value.elts) or not re.search(rf"in {name}\b", file.text):
            continue
        if meant := _meant_in_vain(facts, words, norms):
            yield _of_nobody(file.place(value, binding.context), meant, norms)


def _tests_of_nobody(facts: Facts, file: File) -> Iterator[Finding]:
    """`if "norm" in name: no_decay.append(p)` for a model whose norms have other names."""
    norms = _norms(facts)
    for scope, context in file.scopes() if norms else ():
        for loop in file.nodes_in(scope):
            if not isinstance(loop, ast.For) or not ast.unparse(loop.iter).endswith(".named_parameters()"):
                continue
            sorting = ((node.test, filled(node.body)) for node in loop.body if isinstance(node, ast.If))
            tests = [test for test, held in sorting if _kind(held) == "spared" or _is_spared(file, scope, held)]
            words = [word for test in tests for word in _words_of(test)]
            if len(tests) == 1 and words and (meant := _meant_in_vain(facts, words, norms)):
                yield _of_nobody(file.place(tests[0], context), meant, norms)


def _is_spared(file: File, scope: ast.AST, held: ast.expr | None) -> bool:
    """Whether a list of parameters is given no decay: `{"params": rest, "weight_decay": 0.0}`."""
    for node in file.nodes_in(scope) if held is not None else ():
        match node:
            case ast.Dict(
                keys=[ast.Constant(value="params"), ast.Constant(value="weight_decay")],
                values=[given, ast.Constant(value=0 | 0.0)],
            ) if held is not None and ast.unparse(given) == ast.unparse(held):
                return True
            case ast.Call(
                func=ast.Name(id="dict"),
                keywords=[
                    ast.keyword(arg="params", value=given),
                    ast.keyword(arg="weight_decay", value=ast.Constant(value=0 | 0.0)),
                ],
            ) if held is not None and ast.unparse(given) == ast.unparse(held):
                return True
    return False


def _words_of(test: ast.expr) -> list[str]:
    """The words in `"norm" in name or name.endswith("bias")`; none where it asks for anything else."""
    found: list[str] = []
    for part in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]:
        match part:
            case ast.Compare(left=ast.Constant(value=str(word)), ops=[ast.In()], comparators=[ast.Name()]):
                found.append(word)
            case ast.Call(func=ast.Attribute(value=ast.Name(), attr="endswith"), args=[ast.Constant(value=str(word))]):
                found.append(word)
            case _:
                return []
    return found


def _norms(facts: Facts) -> list[str]:
    """The names that the program gives its norms; none where they may be those of a library's networks."""
    if any(word in other.text for other in facts.sites.files.values() for word in _LIBRARIES):
        return []
    kinds = ("LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d")
    made = facts.sites.calls(*(f"torch.nn.{kind}" for kind in kinds))
    return [name for call in made for name in call.file.names_given(call.node)]


def _meant_in_vain(facts: Facts, words: list[str], norms: list[str]) -> str:
    """The first of the words that means norms, where no norm of the program has any of the words in its name."""
    meant = [word for word in words if "norm" in word.lower() or word.startswith(("ln", "bn"))]
    missed = all(word not in f"{norm}.weight" for word in words for norm in norms)
    return meant[0] if meant and missed and not any(_stands_in_a_model(facts, word) for word in meant) else ""


def _of_nobody(place: Place, word: str, norms: list[str]) -> Finding:
    return Finding(
        f"No parameter of this model is called `{word}`: its norms, `{norms[0]}`, get weight decay",
        place.location,
        help="go by the shape, `p.ndim <= 1`, or by the names the model has",
    )


def _kinds_of_nobody(facts: Facts) -> Iterator[Finding]:
    """`isinstance(module, nn.BatchNorm2d)` sorts out what is not to decay, and the norms are of another kind."""
    if any(word in file.text for file in facts.sites.files.values() for word in _LIBRARIES):
        return
    made = {call.name for call in facts.sites.calls(*_NORMS)}
    for file in facts.sites.mentioning(["weight_decay"]) if made else ():
        for call in file.calls("isinstance"):
            asked = call.node.args[1] if len(call.node.args) == 2 else None
            kinds = asked.elts if isinstance(asked, ast.Tuple) else [asked] if asked is not None else []
            named = {file.resolve(kind, call.context) for kind in kinds}
            sorts = call.function is not None and "weight_decay" in call.function.text
            if sorts and named and named <= set(_NORMS) and named.isdisjoint(made):
                yield Finding(
                    f"The model has no such norm: its own, `{min(made).rpartition('.')[2]}`, get weight decay",
                    call.place.location,
                    help="ask for the norms that the model has, or go by the shape: `p.ndim <= 1`",
                )


def _stands_in_a_model(facts: Facts, word: str) -> bool:
    """Whether some module has a part whose name the word may mean."""
    part = word.split(".")[0]
    return any(part in name for cls in facts.sites.classes for name in cls.attributes)
