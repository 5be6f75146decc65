"""The options that a script's argparse takes, read without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from mlcheck.experiment.trial_code import parsed
from mlcheck.lint.nodes import last_name

_OWN = {"add_argument", "parse_args", "set_defaults", "add_argument_group", "print_help", "error"}
_PLAIN = {"description", "prog", "usage", "epilog", "formatter_class", "add_help", "argument_default"}
_PLAIN |= {"conflict_handler", "exit_on_error"}
_TYPES = {"int": int, "float": float}


@dataclass(frozen=True)
class Option:
    """`convert` is its `type` where that is `int` or `float`; `choices` empty where any value goes."""

    convert: type[int] | type[float] | None = None
    choices: tuple[object, ...] = ()

    def refuses(self, word: str) -> str:
        """Why argparse ends the program at this word; empty where it takes it."""
        value: object = word
        if self.convert is not None:
            try:
                value = self.convert(word)
            except ValueError:
                return f"is no {self.convert.__name__}"
        listed = ", ".join(str(choice) for choice in self.choices)
        return f"is none of {listed}" if self.choices and value not in self.choices else ""


def options_of(path: str) -> dict[str, Option] | None:
    """By the name with its dashes; None where the file cannot be read, or where options may come from elsewhere."""
    module = parsed(path)
    if module is None:
        return None
    nodes = list(ast.walk(module.tree))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    made = [call for call in calls if last_name(call.func).endswith("ArgumentParser")]
    if len(made) != 1 or any(keyword.arg not in _PLAIN for keyword in made[0].keywords) or not _kept(nodes, made[0]):
        return None
    found = {"-h": Option(), "--help": Option()}
    for call in calls:
        if last_name(call.func) == "add_argument":
            names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if len(names) != len(call.args) or any(keyword.arg is None for keyword in call.keywords):
                return None
            found |= dict.fromkeys(names, _option({str(keyword.arg): keyword.value for keyword in call.keywords}))
    return found


def _kept(nodes: list[ast.AST], made: ast.Call) -> bool:
    """Whether the parser has one name, by which nothing is done but to add options in sight and to parse all words."""
    targets = [node.targets[0] for node in nodes if isinstance(node, ast.Assign) and node.value is made]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return False
    name = targets[0].id
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and node is not targets[0]]
    owned = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
    done = [owned.get(id(use), "") for use in uses]
    return "parse_args" in done and set(done) <= _OWN


def _option(given: dict[str, ast.expr]) -> Option:
    if "action" in given or "nargs" in given:
        return Option()
    kind = given.get("type")
    if kind is not None and not (isinstance(kind, ast.Name) and kind.id in _TYPES):
        return Option()
    try:
        choices = tuple(ast.literal_eval(given["choices"])) if "choices" in given else ()
    except (ValueError, TypeError):
        choices = ()
    return Option(_TYPES[kind.id] if isinstance(kind, ast.Name) else None, choices)
