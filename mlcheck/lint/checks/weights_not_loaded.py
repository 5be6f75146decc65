"""weights-not-loaded: weights are put into a copy of a state dict, and no model takes them."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites import Call, Function, Sites
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.layers.reinitialising import initialised_again
from mlcheck.lint.sites.weights.copied_too_early import copied_too_early
from mlcheck.lint.sites.weights.dropped import dropped
from mlcheck.lint.sites.weights.loading import lost
from mlcheck.lint.sites.weights.prefixes import prefix_of, prefixed, saved_with_prefix
from mlcheck.lint.sites.weights.unmet_names import unmet_names
from mlcheck.lint.sites.weights.wrapped_saves import saved_wrapped

LOOKS_AT = "state dict"
_STEPS = 4
_KEYS_ALONE = ("set", "len", "sorted", "list", "frozenset", "tuple")
_ASKED = ("shape", "size", "dtype", "device", "ndim")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    yield from _read_for_nothing(facts)
    yield from _whole_file(facts)
    yield from _by_other_names(facts)
    yield from _refused(facts)
    for unmet in unmet_names(facts.sites):
        yield Finding(
            f"No weight is loaded: in the file they begin with `{unmet.has}`, in the model with `{unmet.wants}`, "
            "and `strict=False` accepts it",
            unmet.load.place.location,
            help="take away what stands before the names, and leave `strict` on",
            related=(unmet.saved.file.place(unmet.saved.node, unmet.saved.context).location,),
        )
    for told in (saved_wrapped, lost, dropped, initialised_again):
        yield from told(facts.sites)
    for early in copied_too_early(facts.sites):
        yield Finding(
            f"`{early.name}` is a copy of `{early.model}` from before that loads its weights: it never has them",
            early.copy.place.location,
            help="take the copy after the weights are loaded",
            related=(early.load.place.location,),
        )
    for file in facts.sites.mentioning(["state_dict()"]):
        for call in file.calls("state_dict"):
            facts.sites.seen[LOOKS_AT] += 1
            yield from _written_for_nothing(call)


def _written_for_nothing(call: Call) -> Iterator[Finding]:
    """`weights = model.state_dict()`, whose entries are replaced, in a function that never loads them."""
    names, function, func = call.file.names_given(call.node), call.function, call.node.func
    if function is None or len(names) != 1 or not isinstance(func, ast.Attribute):
        return
    changed = _changed_for_nothing(function, names[0])
    if changed is None or len(call.file.bindings(names[0], call.context)) != 1 or _loaded_itself(function, changed):
        return
    model = ast.unparse(func.value)
    if "optim" in model.lower():
        return  # a number that is noted down beside its state
    yield Finding(
        f"The weights are put into the dictionary `{names[0]}`, and `{model}` never takes them from it",
        function.place(changed).location,
        help=f"`{model}.load_state_dict({names[0]})` behind it",
        related=(call.place.location,),
    )


def _read_for_nothing(facts: Facts) -> Iterator[Finding]:
    """`state = torch.load(path)`, or what is made of it, which nothing reads, in a function that returns a model."""
    for call in facts.sites.calls("torch.load"):
        function = call.function
        if function is None or "load_state_dict" in function.text:
            continue
        held = _unread(call, function)
        if held is not None and held[0] not in function.parameters and _makes_module(function):
            name, place = held
            yield Finding(
                f"The weights in `{name}` are read from the file, and no model takes them",
                function.place(place).location,
                help=f"`model.load_state_dict({name})`",
                related=(call.place.location,),
            )


def _unread(call: Call, function: Function) -> tuple[str, ast.AST] | None:
    """The variable that the state ends in without being read, and where it is assigned."""
    names = call.file.names_given(call.node)
    place: ast.AST = call.node
    for _ in range(_STEPS):
        if len(names) != 1 or len(call.file.bindings(names[0], call.context)) != 1:
            break
        uses = [node for node in function.nodes if is_name(node, names[0]) and _is_read(node)]
        if not uses:
            return names[0], place
        makers = [node for node in function.nodes if isinstance(node, ast.Assign) and uses[0] in walk(node.value)]
        if len(makers) != 1 or not set(uses) <= set(walk(makers[0].value)) or not _is_state(makers[0].value):
            return None
        names, place = call.file.names_given(makers[0].value), makers[0]
    return None


def _whole_file(facts: Facts) -> Iterator[Finding]:
    """`model.load_state_dict(checkpoint, strict=False)`, where the weights are `checkpoint["model"]`."""
    for file in facts.sites.mentioning(["strict"]):
        for call in file.calls("load_state_dict"):
            given = call.argument("state_dict", 0)
            if call.constant("strict", 1, True) is not False or not isinstance(given, ast.Name):
                continue
            made, where = source(file, given, call.context)
            if call.function is None or file.called(made, where) != "torch.load":
                continue
            entries = [node for node in call.function.nodes if _is_entry(node, given.id)]
            if entries and not any(_is_perhaps(node, given.id) for node in call.function.nodes):
                yield Finding(
                    f"`{given.id}` holds more than the weights, as `{ast.unparse(entries[0])}`: none of its keys is a "
                    "parameter's, `strict=False` accepts that, and the model keeps the weights it had",
                    call.place.location,
                    help=f'load the entry with the weights, as `{given.id}["model"]`, and leave `strict` out',
                    related=(call.function.place(entries[0]).location,),
                )


def _by_other_names(facts: Facts) -> Iterator[Finding]:
    """`parallel.load_state_dict(without_prefix, strict=False)`, and the other way round: no name is the same."""
    for file in facts.sites.mentioning(["strict"]):
        for call in file.calls("load_state_dict"):
            given, func = call.argument("state_dict", 0), call.node.func
            if call.constant("strict", 1, True) is not False or given is None or not isinstance(func, ast.Attribute):
                continue
            asked, stripped = prefix_of(file, func.value, call.context), prefixed(file, given, call.context)
            saved = saved_with_prefix(file, given, call.context) if stripped is None else None
            known = saved[1] if saved is not None else None if stripped is None else "module." if stripped else ""
            if asked is None or known is None or asked == known:
                continue
            model, prefix = ast.unparse(func.value), known or asked
            yield Finding(
                f"{'All' if known else 'None'} of the names in these weights begin with `{prefix}`, and "
                f"{'none' if known else 'all'} of `{model}`'s do: `strict=False` accepts that, and nothing is loaded",
                call.place.location,
                help=f"load them into `{model}.{asked[:-1]}`"
                if asked
                else "take the prefix away, and leave `strict` out",
                related=(saved[0].file.place(saved[0].node, saved[0].context).location,) if saved is not None else (),
            )


def _refused(facts: Facts) -> Iterator[Finding]:
    """`torch.save(parallel.state_dict(), path)`, and `net.load_state_dict(torch.load(path))` into a model without."""
    for file in facts.sites.mentioning(["load_state_dict"]) if facts.sites.once(_wraps) else ():
        for call in file.calls("load_state_dict"):
            given, func = call.argument("state_dict", 0), call.node.func
            if call.constant("strict", 1, True) is not True or given is None or not isinstance(func, ast.Attribute):
                continue
            if prefix_of(file, func.value, call.context) != "" or prefixed(file, given, call.context) is not None:
                continue
            saved = saved_with_prefix(file, given, call.context)
            if saved is not None and not any(outer.kind == "try" for outer in call.context.outwards()):
                writer, prefix = saved
                yield Finding(
                    f"These names all have the `{prefix}` of the wrapper, and `{ast.unparse(func.value)}`, which loads "
                    "them, refuses every one",
                    writer.file.place(writer.node, writer.context).location,
                    help=f"save the state of the model inside: `model.{prefix}state_dict()`",
                    related=(call.place.location,),
                )


def _wraps(sites: Sites) -> bool:
    return any(True for _ in sites.mentioning(["DataParallel", "compile"]))


def _is_entry(node: ast.AST, name: str) -> bool:
    """`checkpoint["epoch"]`: a word that is the name of no parameter."""
    if not isinstance(node, ast.Subscript) or not is_name(node.value, name) or not isinstance(node.slice, ast.Constant):
        return False
    return node.slice.value in ("epoch", "optimizer", "opt", "optimizer_state_dict", "scheduler", "step", "iteration")


def _is_perhaps(node: ast.AST, name: str) -> bool:
    """`if "epoch" in checkpoint`: such a key may be there beside the weights, or not at all."""
    match node:
        case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In()], comparators=[held]):
            return is_name(held, name)
    return False


def _is_read(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _is_state(value: ast.expr) -> bool:
    """`checkpoint["model"]`, and a dictionary with other names made of it."""
    return isinstance(value, ast.DictComp | ast.Subscript)


def _makes_module(function: Function) -> bool:
    """Whether it makes a module under a name, and returns that."""
    for node in function.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = holds_parameters(function.file, node.value, function.inner)
            name = node.targets[0].id
            if made and any(
                isinstance(each, ast.Return) and is_name(each.value or each, name) for each in function.nodes
            ):
                return True
    return False


def _changed_for_nothing(function: Function, name: str) -> ast.AST | None:
    """Where entries are replaced, if the dictionary is then neither loaded nor handed to anybody."""
    changed: ast.AST | None = None
    allowed: set[int] = set()
    for node in function.nodes:
        if (
            isinstance(node, ast.AugAssign)
            and isinstance(node.target, ast.Subscript)
            and is_name(node.target.value, name)
        ):
            return None  # `weights[key] += x` changes the model's own tensor
        if isinstance(node, ast.Subscript) and is_name(node.value, name):
            allowed.add(id(node.value))
            if isinstance(node.ctx, ast.Store):
                changed = changed or node
            elif isinstance(node.ctx, ast.Load) and not _is_asked(function, node):
                return None
        elif isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            allowed |= {id(side) for side in node.comparators if is_name(side, name)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_name(node.func.value, name):
            if node.func.attr not in ("keys", "update"):
                return None
            allowed.add(id(node.func.value))
            changed = changed or (node if node.func.attr == "update" else None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _KEYS_ALONE:
            allowed |= {id(given) for given in node.args if is_name(given, name)}
        elif isinstance(node, ast.For | ast.comprehension) and is_name(node.iter, name):
            allowed.add(id(node.iter))
    uses = [node for node in function.nodes if is_name(node, name) and isinstance(getattr(node, "ctx", None), ast.Load)]
    return changed if all(id(use) in allowed for use in uses) else None


def _loaded_itself(function: Function, changed: ast.AST) -> bool:
    """`weights.update(chosen)`, where `chosen` itself is what the model then loads."""
    put = changed.args[:1] if isinstance(changed, ast.Call) else []
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "load_state_dict"
        and any(is_name(given, name.id) for given in node.args for name in put if isinstance(name, ast.Name))
        for node in function.nodes
    )


def _is_asked(function: Function, entry: ast.Subscript) -> bool:
    """`weights[key].shape`, `0.5 * weights[key]`: the entry is looked at, and not written through."""
    return any(
        (isinstance(node, ast.BinOp) and entry in (node.left, node.right))
        or (isinstance(node, ast.Attribute) and node.value is entry and node.attr in _ASKED)
        for node in function.nodes
    )
