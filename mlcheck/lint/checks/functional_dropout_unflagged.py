"""functional-dropout-unflagged: dropout that `model.eval()` does not reach."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import stores
from mlcheck.lint.sites import OPEN, AttributeSet, Call, Function, Sites
from mlcheck.lint.sites.changing import changed
from mlcheck.lint.sites.guards import asks_mode, conditions, in_branch_of_mode, own_attribute
from mlcheck.lint.sites.heirs import heirs
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.layers.drawn_masks import drops_by_hand, switches_itself
from mlcheck.lint.sites.layers.modules import is_module
from mlcheck.lint.sites.origins import callers

LOOKS_AT = "functional dropout"
WORDS = ("dropout", "scaled_dot_product_attention", "bernoulli")
_KINDS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_DROPOUT = tuple(f"torch.nn.functional.{kind}" for kind in _KINDS)
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_ON_PURPOSE = ("prenet", "mcdropout", "montecarlo", "bayes")  # Tacotron's prenet drops when it speaks, too


def check(facts: Facts) -> Iterator[Finding]:
    calls = list(facts.sites.calls(*_DROPOUT, _ATTENTION))
    facts.sites.seen[LOOKS_AT] = len(calls)
    yield from _told_by_default(facts.sites, calls)
    for cls, call in drops_by_hand(facts.sites):
        yield Finding(
            f"`{cls.name}` drops in evaluation too: nothing in it asks for the mode",
            call.place.location,
            help="`if not self.training: return x`",
        )
    for call in calls:
        function, fixed, method = call.function, _fixed_flag(facts.sites, call), _method_as_flag(call)
        if method:
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` drops in evaluation too: `self.{method}` is a method, "
                "which counts as true in every mode",
                call.place.location,
                help="pass `training=self.training`",
            )
        elif fixed:
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` drops in evaluation too: `self.{fixed}` is set once, "
                "and `eval()` does not change it",
                call.place.location,
                help="pass `training=self.training`",
            )
        if function is None or not _is_of_a_module(facts.sites, function):
            continue
        attention = call.name == _ATTENTION
        rate = call.argument("dropout_p", 4) if attention else call.argument("p", 1)
        if (attention and rate is None) or rate is OPEN:
            continue
        overwritten = _overwritten(call, function, rate)
        if overwritten is not None:
            yield Finding(
                f"`{ast.unparse(overwritten.target)}` is changed here for one mode and stays so in the other: "
                "dropout does not come back",
                function.place(overwritten.node).location,
                help="leave the attribute alone: `p = self.p if self.training else 0.0`",
                related=(call.place.location,),
            )
        elif _is_always_on(call, rate, attention):
            flag = "dropout_p=p if self.training else 0.0" if attention else "training=self.training"
            yield Finding(
                f"`{call.name.rpartition('.')[2]}` drops in evaluation too: it is not told the model's mode",
                call.place.location,
                help=f"pass `{flag}`" + ("" if attention else ", or use `nn.Dropout`"),
            )


def _told_by_default(sites: Sites, calls: list[Call]) -> Iterator[Finding]:
    """`def drop(x, p, training=True): return F.dropout(x, p, training)`, called in a forward pass without the flag."""
    drawn = [(call, _guard(call)) for file in sites.mentioning(["bernoulli"]) for call in file.calls("bernoulli_")]
    told = [(call, call.argument("training", 2)) for call in calls if call.name in _DROPOUT]
    for call, flag in (*told, *drawn):
        helper = call.function
        if helper is None or helper.cls is not None or not isinstance(flag, ast.Name):
            continue
        default = helper.parameters.get(flag.id)
        if not isinstance(default, ast.Constant) or default.value is not True or _is_stored(helper, flag.id):
            continue
        position = list(helper.parameters).index(flag.id)
        for use in callers(sites, helper):
            inside = use.function is not None and use.function.name == "forward" and use.function.cls is not None
            if inside and use.argument(flag.id, position) is None and not in_branch_of_mode(use):
                assert use.function is not None
                assert use.function.cls is not None
                if is_module(use.function.cls) and not switches_itself(use.function.cls):
                    yield Finding(
                        f"`{helper.name}` drops in evaluation too: its `{flag.id}` is left at `True`",
                        use.place.location,
                        help=f"pass `{flag.id}=self.training`",
                        related=(call.place.location,),
                    )


def _guard(call: Call) -> ast.expr | None:
    """`training` of `if p == 0.0 or not training: return x`, above the mask that is drawn."""
    for line in call.function.node.body if call.function is not None else ():
        if isinstance(line, ast.If) and isinstance(line.body[-1], ast.Return) and line.lineno < call.node.lineno:
            tests = line.test.values if isinstance(line.test, ast.BoolOp) else [line.test]
            for test in tests:
                if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                    return test.operand
    return None


def _method_as_flag(call: Call) -> str:
    """`train` of `F.dropout(x, p, self.train)` in a module."""
    flag, function = call.argument("training", 2) if call.name in _DROPOUT else None, call.function
    name = own_attribute(flag, function) if flag is not None else ""
    if name not in ("train", "eval") or function is None or function.cls is None or not is_module(function.cls):
        return ""
    return "" if function.cls.attribute(name) or "property" in ast.unparse(function.cls.node) else name


def _fixed_flag(sites: Sites, call: Call) -> str:
    """`is_train` of `F.dropout(x, p, self.is_train)`, which the constructor sets to True, and nobody sets again."""
    flag, function = call.argument("training", 2) if call.name in _DROPOUT else None, call.function
    name = own_attribute(flag, function) if flag is not None else ""
    if not name or name == "training" or function is None or function.cls is None or not is_module(function.cls):
        return ""
    sets = function.cls.attribute(name)
    if len(sets) != 1 or sets[0][0].name != "__init__" or sets[0][1].value is None:
        return ""
    init, given = sets[0][0], sets[0][1].value
    if isinstance(given, ast.Name) and given.id in init.parameters:
        position = list(init.parameters).index(given.id) - 1
        if any(made.argument(given.id, position) is not None for made in callers(sites, init)):
            return ""
        given = init.parameters[given.id] or given
    if (
        len(sites.once(heirs)[function.cls]) > 1
        or name in sites.once(changed)[0]
        or any("setattr(" in file.text for file in sites.files.values())
    ):
        return ""
    is_on = isinstance(given, ast.Constant) and given.value is True
    return name if is_on and not switches_itself(function.cls) else ""


def _is_stored(helper: Function, name: str) -> bool:
    """Whether the helper changes its own parameter."""
    return any(stores(node, name) for node in helper.node.body)


def _is_always_on(call: Call, rate: ast.expr | None, attention: bool) -> bool:
    name = call.cls.name.lower().replace("_", "") if call.cls is not None else ""
    asked = [ast.unparse(test).lower().replace("_", "") for test in conditions(call.context)]
    if any(word in text for word in _ON_PURPOSE for text in (name, *asked)):
        return False
    if in_branch_of_mode(call) or (not attention and call.argument("training", 2) is not None):
        return False
    return rate is None or _is_positive(call, rate)


def _is_positive(call: Call, rate: ast.expr) -> bool:
    """A rate above zero whatever the mode: a number, or what `__init__` sets once from a number or an argument."""
    asked = {f"{ast.unparse(rate)} > 0", f"{ast.unparse(rate)} > 0.0"} if own_attribute(rate, call.function) else set()
    if any(ast.unparse(test) in asked for test in _asked(call)):
        return True
    rate, _ = source(call.file, rate, call.context)
    value = call.file.constant(rate, call.context)
    if isinstance(value, int | float):
        return value > 0
    function = call.function
    held = rate
    while isinstance(held, ast.Subscript | ast.Attribute) and not own_attribute(held, function):
        held = held.value
    name = own_attribute(held, function)
    if isinstance(rate, ast.Name) and function is not None and function.cls is None:
        return _is_handed_positive(call, function, rate.id)
    if not name or function is None or function.cls is None:
        return False
    assigned = [found for cls in function.cls.line for found in cls.attributes.get(name, ())]
    if len(assigned) != 1 or assigned[0][0].name != "__init__" or assigned[0][1].value is None:
        return False
    init, given, context = assigned[0][0], assigned[0][1].value, assigned[0][1].context
    if isinstance(given, ast.Attribute | ast.Subscript) and getattr(given.value, "id", "") in init.parameters:
        option = given.attr if isinstance(given, ast.Attribute) else init.file.constant(given.slice, context)
        return isinstance(option, str) and "drop" in option and not _is_off_by_default(init, option)
    if not isinstance(given, ast.Name) or given.id not in init.parameters:
        value = init.file.constant(given, context)
        return isinstance(value, int | float) and value > 0
    default = init.parameters[given.id]
    return default is None or not (isinstance(default, ast.Constant) and not default.value) or _is_given(init, given.id)


def _is_off_by_default(init: Function, name: str) -> bool:
    """Whether a configuration of the program has the rate at zero: `dropout: float = 0.0`, `{"dropout": 0.0}`."""
    written = rf"""(?:^\s+|["']){re.escape(name)}["']?(?:: *\w+)? *[=:] *0(?:\.0*)?\s*(?:[#,}}].*)?$"""
    zero = re.compile(written, re.MULTILINE)
    return any(zero.search(file.text) for file in init.file.sites.mentioning([name], tests=True))


def _is_given(init: Function, name: str) -> bool:
    """Whether somebody makes the module with a rate above zero, where it has none by default."""
    position = list(init.parameters).index(name) - 1
    handed = [(made, made.constant(name, position)) for made in callers(init.file.sites, init)]
    return any(isinstance(value, int | float) and not made.file.is_test and value > 0 for made, value in handed)


def _is_handed_positive(call: Call, helper: Function, name: str) -> bool:
    """The rate of a helper that every forward pass hands it."""
    if name not in helper.parameters or _is_stored(helper, name):
        return False
    position, uses = list(helper.parameters).index(name), list(callers(call.file.sites, helper))
    rates = [(use, use.argument(name, position)) for use in uses]
    return bool(uses) and all(isinstance(given, ast.expr) and _is_positive(use, given) for use, given in rates)


def _asked(call: Call) -> list[ast.expr]:
    """The conditions that all hold where the call stands."""
    around = [(outer.node, outer.arm) for outer in call.context.outwards()]
    return [node.test for node, arm in around if isinstance(node, ast.If) and arm == "body"]


def _is_of_a_module(sites: Sites, function: Function) -> bool:
    """A method of a module, or of what only modules derive from; a function that only forward passes call."""
    if function.cls is not None:
        others = (
            [] if is_module(function.cls) else [e for e in sites.once(heirs)[function.cls] if e is not function.cls]
        )
        return all(is_module(cls) and not switches_itself(cls) for cls in others or [function.cls])
    callers = [call.function for call in sites.calls_of(function) or ()]
    return bool(callers) and all(
        caller is not None
        and caller.cls is not None
        and caller.name == "forward"
        and is_module(caller.cls)
        and not switches_itself(caller.cls)
        for caller in callers
    )


def _overwritten(call: Call, function: Function, rate: ast.expr | None) -> AttributeSet | None:
    """A forward pass that assigns its rate in one branch of the mode, and in no other; it drops in both."""
    name = own_attribute(rate, function) if rate is not None else ""
    if not name or function.cls is None or in_branch_of_mode(call):
        return None
    here = [assigned for where, assigned in function.cls.attributes.get(name, ()) if where.name != "__init__"]
    if len(here) != 1 or not any(asks_mode(test) for test in conditions(here[0].context)):
        return None
    return here[0]
