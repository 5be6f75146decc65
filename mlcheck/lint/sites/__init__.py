"""The call-site layer: where something is called or derived from, without interpreting the program.

Most rules need no abstract machine: they ask where `DataLoader` is called and with what, or which classes are modules
and what their `__init__` assigns. This layer answers that cheaply. A file is walked once (`walking`), when the first
rule asks for a word that stands in its text; a program that uses nothing relevant pays for a few text searches.

    for call in facts.sites.calls("torch.utils.data.DataLoader"):   # however it was imported, aliased or re-exported
        call.argument("shuffle", 2)        # expression | None (not given) | OPEN (hidden in * or **)
        call.constant("shuffle", 2)        # value | default | UNKNOWN; follows names assigned once and dict literals
        call.function, call.cls, call.loops, call.context   # what stands around it, innermost first
        call.place.location                # for the finding

    for cls in facts.sites.classes:        # all of them, where any file is about torch
        cls.libraries                      # full names of library bases through all files, "?" for an unknown one
        cls.line, cls.find("forward"), cls.attributes, cls.attribute("head")

    file.resolve(expr, context)   # library name as imported | Class | Function | ProjectModule | None
    file.value(expr, context)     # the expression behind a name or `self.x` that is assigned once
    file.bindings(name, context)  # all that may give the name its meaning

What the text does not tell is None, OPEN or UNKNOWN, and a rule is silent there. `sites.once(make)` keeps what several
rules share. Nothing here follows control flow: "assigned once" is the only proof of a value.
"""

from mlcheck.lint.names import canonical
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.model import OPEN, UNKNOWN, Call, Class, Function, Named, ProjectModule
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import AttributeSet, Binding, Context

__all__ = [
    "OPEN",
    "UNKNOWN",
    "AttributeSet",
    "Binding",
    "Call",
    "Class",
    "Context",
    "File",
    "Function",
    "Named",
    "ProjectModule",
    "Sites",
    "canonical",
]
