"""Which files can have a say in one another: those joined by imports, whoever imports whom.

A group is analysed by itself. What it comes to depends on its files alone, and on which of its functions some
other file calls by name; so its findings can be kept until one of these changes.

Nothing smaller than a group is kept. Its roots are interpreted in one memory: what one of them called is not begun
again, functions that came to nothing are spared in all that follow, and which names are worth following is read off
all files; rules then weigh what all roots did. An answer for a single root would rest on all those before it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from mlcheck.lint.files.outlines import ALL_BELOW, Group, Import, Member
from mlcheck.lint.files.source import Source
from mlcheck.lint.program import ModuleInfo, Program


def group(files: Sequence[Member]) -> list[Group]:
    """Every file in one group, groups and their members in the order of the files."""
    leaders = _joined(files)
    members: dict[int, list[int]] = {}
    for position, leader in enumerate(leaders):
        members.setdefault(leader, []).append(position)
    callers = Counter(name for file in files for name in file.outline.called) if len(members) > 1 else Counter()
    return [Group(tuple(those), _called_elsewhere([files[i] for i in those], callers)) for those in members.values()]


def _called_elsewhere(own: Sequence[Member], callers: Counter[str]) -> frozenset[str]:
    """The functions that other files may call: by an import that could mean the file, or by one that may mean any."""
    here = Counter(name for file in own for name in file.outline.called)
    found = set[str]()
    for file in own:
        parts = file.module.split(".")
        stem = parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]
        for name in file.outline.defined:
            if any(callers[key] > here[key] for key in (name, f"{stem}.{name}")):
                found.add(name)
    return frozenset(found)


def _joined(files: Sequence[Member]) -> list[int]:
    """For each file the first of its group, by union and find over the imports that the program can resolve."""
    program = Program([Source(file.path, "", ast.Module([], []), file.module) for file in files])
    position = {name: number for number, name in enumerate(program.modules)}
    leaders = list(range(len(files)))

    def leader(one: int) -> int:
        while leaders[one] != one:
            leaders[one] = leaders[leaders[one]]
            one = leaders[one]
        return one

    for number, module in enumerate(program.modules.values()):
        for target in _targets(program, module, files[number].outline.imports):
            one, two = sorted((leader(number), leader(position[target])))
            leaders[two] = one
    return [leader(number) for number in range(len(files))]


def _targets(program: Program, module: ModuleInfo, imports: Sequence[Import]) -> Iterator[str]:
    """The project modules that a file's imports can mean."""
    importer = program.name_of(module)
    for level, name, names in imports:
        if names == ALL_BELOW:
            package = program.resolve(name, importer) or name
            yield from (each for each in program.modules if each.rpartition(".")[0] == package)
            continue
        base = program.relative(module, level, name or None) if level else name
        asked = {base, name, *(f"{base}.{one}" for one in names)}
        asked |= {name.partition(".")[0]} if not names else set(names) if level else set()
        for wanted in asked - {""}:
            found = wanted if level and wanted in program.modules else program.resolve(wanted, importer)
            if found is not None:
                yield found
