"""All files of the program, asked by name: where is this called, which classes derive from that."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Hashable, Iterator
from functools import cached_property
from typing import TypeVar, cast

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.program import ClassInfo, Program
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import Call, Class, Function, Named, ProjectModule
from mlcheck.lint.sites.scopes import Binding
from mlcheck.lint.sites.standing_in import is_of_library, of_attributes, of_partials, of_tables
from mlcheck.lint.sites.vocabulary import Vocabulary
from mlcheck.lint.words import occurrences

_MAKES_ITS_KIND = ("@classmethod", "__class__", "type(")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Sites:
    """The call-site layer: see the package's docstring. Nothing is walked before somebody asks for it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.files = {name: File(self, module, name) for name, module in program.modules.items()}
        self.seen: dict[str, int] = {}
        self._kept: dict[object, object] = {}
        self._resolved: dict[str, list[Call]] = {}
        self._mentioning: dict[Hashable, list[File]] = {}

    def once(self, make: Callable[[Sites], T]) -> T:
        """What `make` reads off the program, read once for all rules that ask."""
        if make not in self._kept:
            self._kept[make] = make(self)
        return cast(T, self._kept[make])

    def once_of(self, make: Callable[[K], T], part: K) -> T:
        """What `make` reads off a file or a function, read once for all who ask."""
        if (make, part) not in self._kept:
            self._kept[make, part] = make(part)
        return cast(T, self._kept[make, part])

    @cached_property
    def uses_torch(self) -> bool:
        """Whether any file mentions torch: without it, no rule of this layer has anything to say."""
        return self.vocabulary.holding("torch") != 0

    def mentioning(self, words: Collection[str], tests: bool = False) -> Iterator[File]:
        """The files whose text has any of the words, in a stable order; test files only where asked for."""
        asked = (*sorted(words), tests)
        if asked not in self._mentioning:
            holding = 0
            for word in words:
                holding |= self.vocabulary.holding(word)
            files = [self._ordered[number] for number in self.vocabulary.numbers(holding)]
            self._mentioning[asked] = [file for file in files if tests or not file.is_test]
        yield from self._mentioning[asked]

    def worded(self, words: re.Pattern[str]) -> frozenset[File]:
        """The files with a word in which the pattern matches, test files among them."""
        if words not in self._kept:
            numbers = self.vocabulary.numbers(self.vocabulary.matching(words))
            self._kept[words] = frozenset(self._ordered[number] for number in numbers)
        return cast(frozenset[File], self._kept[words])

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the texts, by the numbers of the files in their order."""
        return Vocabulary([file.text for file in self._ordered])

    @cached_property
    def _at(self) -> dict[str, File]:
        return {file.path: file for file in self.files.values()}

    def at(self, path: str) -> File | None:
        """The file of that path."""
        return self._at.get(path)

    def class_of(self, info: ClassInfo | None) -> Class | None:
        """The class that the interpreter met under another name."""
        file = self.at(info.module.source.path) if info is not None else None
        found = file.definitions.get(info.node) if file is not None and info is not None else None
        return found if isinstance(found, Class) else None

    def call_at(self, place: Place) -> Call | None:
        """The call that stands at a place, with all that is known around it."""
        file, node = self.at(place.path), place.node
        calls = file.calls(last_name(node.func)) if file is not None and isinstance(node, ast.Call) else []
        return next((call for call in calls if call.node is node), None)

    def is_named(self, word: str, times: int) -> bool:
        """Whether the word stands so many times in the texts of all files. It is not looked for any further."""
        for file in self._ordered:
            times -= occurrences(word, file.text, times)
            if times <= 0:
                return True
        return False

    def calls(self, *names: str) -> Iterator[Call]:
        """Calls of library functions and classes by their full names, however they were imported.

        `torch.nn.modules.conv.Conv2d` and `torch.nn.Conv2d` are one: names are compared in their canonical form.
        """
        lasts: dict[str, set[str]] = {}
        for name in names:
            lasts.setdefault(name.rpartition(".")[2], set()).add(name)
        for last, full in lasts.items():
            yield from (call for call in self._of_libraries(last) if call.name in full)

    def _of_libraries(self, last: str) -> list[Call]:
        """All calls, but for those in test files, of what libraries call so."""
        if last not in self._resolved:
            known_as = (last, *sorted(self._aliases.get(last, set()) - {last}))
            self._resolved[last] = [
                call for file in self.calling(known_as) for call in file.calls(*known_as) if is_of_library(call)
            ]
            self._resolved[last] += self._standing_in.get(last, ())
        return self._resolved[last]

    @cached_property
    def _standing_in(self) -> dict[str, list[Call]]:
        """Calls of what a partial, a table or an attribute stands for, by the last name of it."""
        found: dict[str, list[Call]] = {}
        for call in (*of_partials(self), *of_tables(self), *of_attributes(self)):
            found.setdefault(call.name.rpartition(".")[2], []).append(call)
        return found

    def calling(self, lasts: Collection[str], tests: bool = False) -> list[File]:
        """The files that call something of one of these names, in a stable order; test files where asked for."""
        callers = [self._callers.get(last, ()) for last in lasts]
        found = callers[0] if len(callers) == 1 else sorted({number for those in callers for number in those})
        files = self._ordered
        return [files[number] for number in found if tests or not files[number].is_test]

    @cached_property
    def _ordered(self) -> tuple[File, ...]:
        return tuple(self.files.values())

    @cached_property
    def _callers(self) -> dict[str, list[int]]:
        """For each name that is called, the numbers of the files it is called in."""
        found: dict[str, list[int]] = {}
        for number, file in enumerate(self._ordered):
            for last in file.walk.calls:
                found.setdefault(last, []).append(number)
        return found

    @cached_property
    def _aliases(self) -> dict[str, set[str]]:
        """The names that files give to others on import or by assignment."""
        found: dict[str, set[str]] = {}
        for file in self._ordered:
            for last, names in file.walk.aliases.items():
                found.setdefault(last, set()).update(names)
        return found

    def calls_of(self, function: Function) -> list[Call] | None:
        """Every call of a project function; None where it may also be called by ways the text does not show.

        A constructor is called where its class is, unless that has heirs, is registered, or makes others of its kind.
        """
        wanted: Function | Class = function
        if function.name == "__init__" and function.cls is not None:
            wanted = function.cls
            if wanted.node.decorator_list or any(word in wanted.text for word in _MAKES_ITS_KIND):
                return None
        found: list[Call] = []
        for file in self.mentioning([wanted.name], tests=True):
            known_as = {wanted.name, *file.walk.aliases.get(wanted.name, ())}
            calls = file.calls(*known_as)
            for call in calls:
                named = file.resolve(call.node.func, call.context)
                if named is wanted:
                    found.append(call)
                elif named is None and not (isinstance(call.node.func, ast.Attribute) and function.cls is None):
                    return None
            if sum(file.uses[name] for name in known_as) > len(calls):
                return None
        return found

    @cached_property
    def classes(self) -> tuple[Class, ...]:
        """All classes of the program but those of test files; none where no file mentions torch."""
        files = self._ordered if self.uses_torch else ()
        return tuple(cls for file in files if "class " in file.text and not file.is_test for cls in file.classes)

    def imported(self, file: File, node: ast.ImportFrom, name: str, depth: int) -> Named:
        """What `from module import name` brings into `file`."""
        importer, module = file.name, node.module or ""
        if node.level:
            module = self.program.relative(file.module, node.level, node.module)
        if found := self.source_of(file, node):
            return self.member(ProjectModule(found), name, depth)
        inner = f"{module}.{name}".lstrip(".")
        nested = inner if inner in self.files else self.program.resolve(inner, importer) if not node.level else None
        if nested:
            return ProjectModule(nested)
        if module == importer.rpartition(".")[2] and name in file.names:  # it imports itself, in a function
            return self.member(ProjectModule(importer), name, depth)
        return None if node.level else f"{module}.{name}"

    def source_of(self, file: File, node: ast.ImportFrom) -> str | None:
        """The project module that a `from` import of `file` takes names from."""
        if not node.level:
            return self.program.resolve(node.module or "", file.name)
        absolute = self.program.relative(file.module, node.level, node.module)
        found = absolute if absolute in self.files else self.program.resolve(absolute, file.name)
        return self.program.resolve(node.module, file.name) if found is None and node.module else found

    @cached_property
    def below(self) -> dict[str, set[str]]:
        """The modules and folders right below each module or folder, by their last names."""
        found: dict[str, set[str]] = {}
        for name in (*self.files, *self.program.folders):
            above, _, last = name.rpartition(".")
            found.setdefault(above, set()).add(last)
        return found

    def variable(self, file: File, binding: Binding) -> tuple[File, ast.expr] | None:
        """The file and the expression of a variable of the project that an import binding brings, if bound once."""
        if not isinstance(binding.node, ast.ImportFrom) or not isinstance(binding.value, ast.alias):
            return None
        module = binding.node.module or ""
        if binding.node.level:
            module = self.program.relative(file.module, binding.node.level, binding.node.module)
        found = self.files.get(self.program.resolve(module, file.name) or module)
        bound = found.walk.module.scope.bindings.get(binding.value.name, []) if found is not None else []
        if found is None or len(bound) != 1 or bound[0].kind != "value" or not isinstance(bound[0].value, ast.expr):
            return None
        return found, bound[0].value

    def member(self, module: ProjectModule, name: str, depth: int) -> Named:
        """`module.name`: what its top level binds, what it re-exports, or a module below it."""
        file = self.files.get(module.name)
        if file is not None and depth > 0:
            bindings = file.walk.module.scope.bindings.get(name, [])
            if bindings:
                return file.resolve(ast.Name(name, ast.Load()), file.walk.module, depth - 1)
            if (found := file.starred(name, depth)) is not None:
                return found
        inner = f"{module.name}.{name}"
        if inner in self.files or inner in self.program.folders:
            return ProjectModule(inner)
        return None
