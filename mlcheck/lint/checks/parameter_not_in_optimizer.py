"""parameter-not-in-optimizer: a module that gets gradients, and whose parameters no optimizer holds."""

import ast
from collections.abc import Hashable, Iterator
from itertools import chain

from mlcheck.core.finding import Finding, first_of_each_line
from mlcheck.lint.facts import Facts, Step
from mlcheck.lint.nodes import is_name, last_name, loads, stores, walk
from mlcheck.lint.sites import Call, File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.injecting import injected
from mlcheck.lint.sites.origins import callers
from mlcheck.lint.sites.training.arms_of_optimizers import left_by_one_arm
from mlcheck.lint.sites.training.doubled_optimizers import doubled
from mlcheck.lint.sites.training.freezing import may_be_frozen
from mlcheck.lint.sites.training.groups import forgotten_groups, is_handed_on
from mlcheck.lint.sites.training.module_groups import layers_left_out
from mlcheck.lint.sites.training.named_groups import left_out_by_name
from mlcheck.lint.sites.training.optimizers import around, following, handed_out, model_given, optimizers
from mlcheck.lint.sites.training.sorted_parameters import dropped_lists
from mlcheck.lint.sites.training.twice_given import twice_given
from mlcheck.lint.training import Optimizer, Unheld
from mlcheck.lint.values import Symbol

LOOKS_AT = "optimizer"
_WITHOUT_PARAMETERS = (
    *("Identity", "Dropout", "ReLU", "ELU", "GELU", "Softmax", "Flatten", "Sigmoid", "Tanh", "Pool", "Parameter"),
    *("SiLU", "Hardswish", "Mish", "Upsample", "PixelShuffle", "Pad", "Loss"),
)
_AROUND = ("Sequential", "DataParallel")
_HANDED_ON = ("add_param_group", "param_groups")


def check(facts: Facts) -> Iterator[Finding]:
    yield from first_of_each_line(chain(_replaced(facts), _put_in_later(facts)))
    yield from chain(_made_anew(facts), _thawed(facts), _left_behind(facts), _forgotten(facts))
    yield from chain(left_out_by_name(facts.sites), left_by_one_arm(facts.sites))
    yield from chain(doubled(facts.sites), twice_given(facts.sites))
    held = {owner for made in facts.training.optimizers.values() for owner in made.owners} | facts.training.walked
    spoken = set()
    for module in facts.training.unheld:
        culprit = _culprit(facts, module)
        known = not held.isdisjoint(module.keys) or module.place.spot in spoken
        if culprit is None or known or may_be_frozen(facts.sites, module.place, module.name):
            continue
        spoken.add(module.place.spot)
        yield Finding(
            f"`{module.name}` gets gradients, and its parameters are in no optimizer: it keeps its first weights",
            culprit.place.location,
            help=f"give an optimizer `{module.name}.parameters()`, or freeze it with `requires_grad_(False)`",
            related=(module.place.location,),
        )


def _replaced(facts: Facts) -> Iterator[Finding]:
    stepped = {step.key for step in facts.steps}
    trained: set[Hashable] = set()
    unknown: set[Hashable] = set()
    for forward in facts.forwards:
        trained |= forward.touched if forward.trained else set()
        if forward.trained and isinstance(forward.module, Symbol):  # of which nobody sees what it calls
            unknown.add(forward.module.key)
    for replaced in facts.training.replaced:
        made = replaced.optimizer
        later = (other for other in facts.training.optimizers.values() if _is_later(other, replaced.key))
        if made.key not in stepped or made.handed_on:
            continue
        if replaced.key not in trained and replaced.within not in unknown and trained.isdisjoint(replaced.whole):
            continue
        if any(other.owners == made.owners or not other.owners or replaced.key in other.owners for other in later):
            continue
        yield Finding(
            f"`{replaced.name}` is added after the optimizer was made: its parameters are never updated",
            replaced.place.location,
            help="make the optimizer after the last change to the model",
            related=(made.place.location,),
        )


def _forgotten(facts: Facts) -> Iterator[Finding]:
    for group, name, made in (*forgotten_groups(facts.sites), *dropped_lists(facts.sites)):
        yield Finding(
            f"`{name}` is filled with parameters but not added to the groups: no optimizer updates them",
            group.location,
            help="add it, as the other groups",
            related=(made.location,),
        )
    for left in layers_left_out(facts.sites):
        yield Finding(
            f"`{left.name}` is the one layer of this model that no group of the optimizer holds: it keeps its first "
            "weights",
            left.layer.location,
            help="add its parameters to the groups, or freeze it with `requires_grad_(False)`",
            related=(left.made.location,),
        )


def _made_of_a_model(facts: Facts) -> Iterator[tuple[Call, str, str]]:
    """`optimizer = SGD(model.parameters())`: the call, the model's name and the optimizer's."""
    for made in facts.sites.once(optimizers):
        model, names = model_given(made), made.file.names_given(made.node)
        if model and len(names) == 1:
            yield made, model, names[0]


def _put_in_later(facts: Facts) -> Iterator[Finding]:
    """`optimizer = SGD(model.parameters())`, and beneath it in the same block `model.fc = nn.Linear(...)`."""
    for made, model, name in _made_of_a_model(facts):
        for where, held, optimizer in ((made, model, name), *handed_out(made, model, name)):
            if (layer := _layer_put_in(where, held, optimizer)) is not None:
                yield Finding(
                    f"`{ast.unparse(layer)}` is added after the optimizer was made: its parameters are never updated",
                    where.file.place(layer, where.context).location,
                    help="make the optimizer after the last change to the model",
                    related=(made.place.location,),
                )
            for call in injected(where, held, optimizer):
                what = "copies the model" if last_name(call.func) == "deepcopy" else "puts layers in"
                yield Finding(
                    f"`{ast.unparse(call.func)}` {what} after the optimizer was made: the new parameters "
                    "are never updated",
                    where.file.place(call, where.context).location,
                    help="make the optimizer after the last change to the model",
                    related=(made.place.location,),
                )


def _made_anew(facts: Facts) -> Iterator[Finding]:
    """`model = make_model()`, and beneath an optimizer of it once more, by a call of the same."""
    for made, model, name in _made_of_a_model(facts):
        first = source(made.file, ast.Name(model, ast.Load(), lineno=made.node.lineno, col_offset=0), made.context)[0]
        last: ast.Assign | None = None
        handed_on = [word for word in _HANDED_ON if word in made.file.text]
        for statement in following(made):
            text = made.file.module.text_of(statement)
            for node in walk(statement) if model in text else ():
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _names(node, model):
                    last = node
            if (name in text and stores(statement, name)) or any(word in text for word in handed_on):
                last = None
                break
        beneath = last is not None and last not in following(made)
        alike = last is not None and isinstance(first, ast.Call) and _is_alike(first, last.value, beneath)
        if last is not None and alike and not loads(last.value, model) and _goes_on(made, last, model, name):
            yield Finding(
                f"`{model}` is made anew here, and the optimizer keeps the parameters of the first: it trains nothing",
                made.file.place(last, made.context).location,
                help="make the optimizer after the model that is trained",
                related=(made.place.location,),
            )


def _is_alike(first: ast.Call, again: ast.expr, beneath: bool) -> bool:
    """Whether both make a model by the same call; in a branch beneath, be it with other arguments."""
    if not beneath or not isinstance(again, ast.Call):
        return ast.unparse(first) == ast.unparse(again)
    return ast.unparse(first.func) == ast.unparse(again.func)


def _goes_on(made: Call, last: ast.Assign, model: str, optimizer: str) -> bool:
    """Whether the optimizer steps beneath, or both are handed out together."""
    for node in walk(around(made)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{optimizer}.step" and node.lineno > last.lineno:
            return True
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            if {model, optimizer} <= {part.id for part in node.value.elts if isinstance(part, ast.Name)}:
                return True
    return False


def _names(node: ast.Assign, name: str) -> bool:
    return len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name


def _layer_put_in(made: Call, model: str, optimizer: str) -> ast.expr | None:
    """The attribute that gets a new layer, where nothing beneath makes or extends the optimizer anew."""
    found: ast.expr | None = None
    used = False
    for statement in following(made):
        text = made.file.module.text_of(statement)
        if (optimizer in text and stores(statement, optimizer)) or any(word in text for word in _HANDED_ON):
            return None
        if found is None and model in text and stores(statement, model):
            return None
        used = used or (found is not None and optimizer in text and loads(statement, optimizer))
        if found is None and isinstance(statement, ast.Assign) and _is_layer(made.file, statement.value, made):
            target = statement.targets[0]
            root: ast.expr = target
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if root is not target and is_name(root, model):
                found = target
    above = callers(made.file.sites, made.function) if found and used and made.function is not None else ()
    extended = any(word in ast.unparse(around(call)) for call in above for word in _HANDED_ON)
    return found if used and not extended else None


def _is_layer(file: File, node: ast.expr, near: Call) -> bool:
    last = file.called(node, near.context).removeprefix("torch.nn.")
    if not isinstance(node, ast.Call) or not last or "." in last or any(word in last for word in _WITHOUT_PARAMETERS):
        return False
    return last not in _AROUND or any(_is_layer(file, layer, near) for layer in node.args)


def _thawed(facts: Facts) -> Iterator[Finding]:
    stepped = {step.key for step in facts.steps}
    for thawed in facts.training.thawed:
        made = thawed.optimizer
        later = (other for other in facts.training.optimizers.values() if _is_later(other, thawed.stamp))
        if made.key not in stepped or made.handed_on or any(True for _ in later):
            continue
        yield Finding(
            "These parameters were frozen when the optimizer was made, which left them out: setting them free "
            "now trains nothing",
            thawed.place.location,
            help="make a new optimizer, or hand them over with `optimizer.add_param_group`",
            related=(made.place.location,),
        )


def _left_behind(facts: Facts) -> Iterator[Finding]:
    """A group of parameters that is written out, and that nothing reads."""
    made = [call for call in facts.sites.once(optimizers) if call.function is not None]
    for function in {id(call.function): call.function for call in made}.values():
        assert function is not None
        for name, bindings in function.inner.scope.bindings.items():
            group = bindings[-1].value
            if not isinstance(group, ast.Dict) or "'params'" not in map(ast.unparse, filter(None, group.keys)):
                continue
            if len(bindings) > 1 and any(outer.kind == "loop" for outer in bindings[-1].context.outwards()):
                continue
            if not is_handed_on(function.node, name, group) and "locals()" not in function.file.text:
                yield Finding(
                    f"`{name}` is handed to no optimizer: its parameters keep their first values",
                    function.place(group).location,
                    help=f"append `{name}` to the groups that the optimizer gets",
                )


def _is_later(optimizer: Optimizer, key: Hashable) -> bool:
    return isinstance(optimizer.key, int) and isinstance(key, int) and optimizer.key > key


def _culprit(facts: Facts, module: Unheld) -> Optimizer | None:
    """The optimizer that was probably meant: one that holds what another holds already, else the last that steps.

    Of those that step, one that holds what the same loss trains.
    """
    if module.loop is None:
        return None
    steps = [s for s in facts.steps if s.key in module.optimizers and _runs_in(s, module)]
    made = [facts.training.optimizers[step.key] for step in steps if step.key in facts.training.optimizers]
    if not made:
        return None
    known = [facts.training.optimizers[key] for key in module.optimizers if key in facts.training.optimizers]
    for number, optimizer in enumerate(known):
        if any(optimizer.owners == other.owners for other in known[:number]) and optimizer in made:
            return optimizer
    return next((each for each in reversed(made) if not module.beside.isdisjoint(each.owners)), made[-1])


def _runs_in(step: Step, module: Unheld) -> bool:
    return any(loop is module.loop for loop, _ in step.when.loops)
