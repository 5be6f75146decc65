"""Parts of a function in functions of their own."""

from __future__ import annotations

import ast

from rewrites.names import bound, has_plain_parameters, is_simple, parameters, read, runs_through, surely_bound
from rewrites.program import (
    DEFINITIONS,
    IMPORTS,
    Rewrite,
    block,
    function,
    functions,
    inner_loops,
    of_each_file,
    statements,
)


@of_each_file
def steps_apart(tree: ast.Module) -> bool:
    """The body of the innermost loop: what it reads is given to it, and what is read elsewhere comes back."""
    made = []
    for owner in functions(tree):
        loops = list(inner_loops(owner))
        if len(loops) != 1 or not has_plain_parameters(owner) or not is_simple(owner.body):
            continue
        body = loops[0].body
        loops[0].body = [ast.Pass()]
        own = bound(owner.body) | set(parameters(owner))
        back = sorted(bound(body) & (read(owner.body) | (own & read(body))))
        given = sorted((read(body) | (set(back) - surely_bound(body))) & own)
        if not runs_through(body) or not set(back) <= surely_bound(body) | own:
            loops[0].body = body
            continue
        call = f"{owner.name}_step({', '.join(given)})"
        results = ", ".join(back)
        loops[0].body = statements(f"{results} = {call}" if back else call)
        apart = function(f"{owner.name}_step", given, [*body, *(block(f"return {results}") if back else [])])
        made.append((owner, apart))
    for owner, apart in made:
        tree.body.insert(tree.body.index(owner), apart)
    return bool(made)


def built_apart(form: str) -> Rewrite:
    """The first lines of functions, up to the last that makes an object: as a tuple, or as a `namedtuple`."""

    @of_each_file
    def rewrite(tree: ast.Module) -> bool:
        made = [(owner, lines) for owner in functions(tree) if (lines := _built(owner, form))]
        for owner, lines in made:
            where = tree.body.index(owner)
            tree.body[where:where] = lines
        return bool(made)

    return rewrite


def _built(owner: ast.FunctionDef, form: str) -> list[ast.stmt]:
    head: list[ast.stmt] = []
    for number, line in enumerate(owner.body, 1):
        if not isinstance(line, ast.Assign | ast.Expr):
            break
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call) and _makes(line.value):
            head = owner.body[:number]
    rest = owner.body[len(head) :]
    given = [name for name in parameters(owner) if name in read(head) | bound(head)]
    names = sorted(bound(head) & read(rest))
    if not names or not is_simple(owner.body) or not has_plain_parameters(owner):
        return []
    call = f"build_{owner.name}({', '.join(given)})"
    if form == "tuple":
        owner.body = [*statements(f"({', '.join(names)},) = {call}"), *rest]
        return [function(f"build_{owner.name}", given, [*head, *block(f"return ({', '.join(names)},)")])]
    kind = f"{owner.name.title().replace('_', '')}Parts"
    picked = [f"{name} = parts.{name}" for name in names]
    owner.body = [*statements("\n".join([f"parts = {call}", *picked])), *rest]
    made = function(f"build_{owner.name}", given, [*head, *block(f"return {kind}({', '.join(names)})")])
    return [*statements(f"from collections import namedtuple\n{kind} = namedtuple({kind!r}, {names!r})"), made]


def _makes(call: ast.Call) -> bool:
    """Whether a class is called, by its name."""
    return ast.unparse(call.func).rpartition(".")[2][:1].isupper()


@of_each_file
def forwarded(tree: ast.Module) -> bool:
    found = functions(tree)
    for inner in found:
        (outer,) = statements(f"def {inner.name}(*args, **kwargs):\n    return _{inner.name}(*args, **kwargs)")
        tree.body.insert(tree.body.index(inner) + 1, outer)
        inner.name = f"_{inner.name}"
    return bool(found)


@of_each_file
def in_main(tree: ast.Module) -> bool:
    """The lines of a script in a `main`, where no function reads a name that they bind."""
    lines = [line for line in tree.body if not isinstance(line, (*DEFINITIONS, *IMPORTS))]
    kept = [line for line in tree.body if line not in lines]
    shared = bound(lines) & read(kept)
    if not any(isinstance(line, ast.For) for line in lines) or shared or not is_simple(lines):
        return False
    tree.body = [*kept, function("main", [], lines), *statements("if __name__ == '__main__':\n    main()")]
    return True
