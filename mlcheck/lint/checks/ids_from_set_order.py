"""ids-from-set-order: words, characters or classes are numbered in the order of a set, and weights outlive it."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites import Call, File, Sites
from mlcheck.lint.sites.data.numbering import numberings
from mlcheck.lint.sites.data.set_orders import Ordered, by_set

LOOKS_AT = "numbering of a collection"
WORDS = ("enumerate", "zip", "= len(")
_COMPREHENSION = pattern(r"\{[^{}:\n]+ for ")
_STORES = ("dump", "dumps", "savez", "to_csv", "to_json", "to_pickle", "save_pretrained")
_WRITES = ("write", "writelines")  # logs are written so too
_RANKS = ("torch.nn.parallel.DistributedDataParallel", "torch.distributed.init_process_group")


def check(facts: Facts) -> Iterator[Finding]:
    sites = facts.sites
    files = list(sites.mentioning(WORDS)) if any(map(_has_sets, sites.mentioning(["set(", "{"]))) else ()
    found = [(file, ordered) for file in files for ordered in _numbered(file)]
    sites.seen[LOOKS_AT] = len(found)
    if not found or _may_be_stored(sites, {file for file, ordered in found if ordered is not None}):
        return
    use, harm = next(sites.calls("torch.save"), None), "saved weights do not fit the ids of the next run"
    if use is None:
        use, harm = next(sites.calls(*_RANKS), None), "every rank assigns different ids"
    if use is None:
        return
    for _, ordered in found:
        if isinstance(ordered, Ordered):
            yield Finding(
                f"Ids are given in the order of a set of strings, which differs in every process: {harm}",
                ordered.file.place(ordered.node, ordered.context).location,
                help="sort it first, `sorted(...)`, or save the mapping together with the weights",
                related=(use.place.location,),
            )


def _has_sets(file: File) -> bool:
    return "set(" in file.text or _COMPREHENSION.search(file.text) is not None


def _numbered(file: File) -> Iterator[Ordered | None]:
    """For each collection that is numbered the set that gives the order, if one does; a set once."""
    told = set[int]()
    for scope, context in file.scopes():
        text = file.module.text_of(scope) if isinstance(scope, ast.stmt) else file.text
        if not any(word in text for word in WORDS):
            continue
        for _, over in numberings(file.nodes_in(scope)):
            ordered = by_set(file, over, context)
            if ordered is None or id(ordered.node) not in told:
                told |= {id(ordered.node)} if ordered is not None else set()
                yield ordered


def _may_be_stored(sites: Sites, numbering: set[File]) -> bool:
    """Whether anything but weights is written to a file: the mapping may be in it."""
    if any(file.calls(*_STORES) for file in sites.mentioning(_STORES)):
        return True
    paths = {file.path for file in numbering}
    writing = (file for file in sites.mentioning(_WRITES) if file.calls(*_WRITES))
    if any(file in numbering or not paths.isdisjoint(file.imports) for file in writing):
        return True
    return not all(_is_of_weights(call) for call in sites.calls("torch.save"))


def _is_of_weights(save: Call) -> bool:
    """`torch.save(model.state_dict(), path)`, or a dictionary of such and of numbers."""
    what = save.node.args[0] if save.node.args else None
    if what is None:
        return False
    what, _ = save.file.value(what, save.context)
    if isinstance(what, ast.Dict):
        return all(_is_state(value) or _is_count(key) for key, value in zip(what.keys, what.values, strict=True))
    return _is_state(what)


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "state_dict"


def _is_count(key: ast.expr | None) -> bool:
    """`"epoch"`, `"best_loss"`: by its name no mapping."""
    words = key.value.lower() if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
    return any(word in words for word in ("epoch", "step", "loss", "acc", "best", "score"))
