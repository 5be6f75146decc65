"""Options of a command line that nothing reads, though an optimizer has what they are to say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.model import Call, Class, Function
from mlcheck.lint.sites.options import is_parsed, name_of_option
from mlcheck.lint.sites.origins import origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.training.optimizers import optimizers

_RATES = ("lr", "learning_rate")
_AS_A_WHOLE = ("vars(", "__dict__", "getattr(", "_get_kwargs", "OmegaConf", "namespace=", "parents=")
_ONLY_SHOWN = ("print", "pprint", "builtins.print", "builtins.str", "builtins.repr", "pprint.pprint")


class Unheard(NamedTuple):
    """The option, as it is written, where it is made, and the optimizer that has a number instead."""

    flag: str
    option: Call
    optimizer: Call


def unheard_rates(sites: Sites) -> Iterator[Unheard]:
    """`parser.add_argument("--lr")` that nothing reads, and `Adam(model.parameters(), lr=0.01)`."""
    made = [call for file in sites.mentioning(["add_argument"]) for call in file.calls("add_argument")]
    rates = [call for call in made if name_of_option(call) in _RATES]
    built = sites.once(optimizers) if len(rates) == 1 else ()
    if not built or any(word in file.text for file in sites.files.values() for word in _AS_A_WHOLE):
        return
    name = name_of_option(rates[0])
    numbers = [type(call.constant("lr", 1)) in (int, float) for call in built]
    if all(numbers) and not _is_read(sites, name) and not _is_handed_out(sites):
        flags = [str(arg.value) for arg in rates[0].node.args if isinstance(arg, ast.Constant)]
        yield Unheard(next((flag for flag in flags if flag.startswith("--")), name), rates[0], built[0])


def _is_read(sites: Sites, name: str) -> bool:
    """Whether an attribute or a key of that name is read, or a keyword set, by any file."""
    read = re.compile(rf"\.{name}\b(?!\s*=[^=])|[\"']{name}[\"']")
    return any(read.search(file.text) for file in sites.mentioning([name], tests=True))


def _is_handed_out(sites: Sites) -> bool:
    """Whether all options are given as one to what may read them: to a library, or to what is not known."""
    for file in sites.files.values():
        for calls in file.walk.calls.values():
            for node, context in calls:
                for given in (*node.args, *(word.value for word in node.keywords)):
                    value = given.value if isinstance(given, ast.Starred) else given
                    if not isinstance(value, ast.Name) or not any(
                        is_parsed(each.node) for each in origins(file, value, context)
                    ):
                        continue
                    named = file.resolve(node.func, context)
                    if not isinstance(named, Function | Class) and named not in _ONLY_SHOWN:
                        return True
    return False
