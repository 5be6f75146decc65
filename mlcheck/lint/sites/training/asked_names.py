"""What a loop over `named_parameters()` asks of a parameter's name, and whether any parameter may be called so."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.declared import declared
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.heirs import heirs
from mlcheck.lint.sites.layers.modules import MODULE
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context

_BY_OTHER_MEANS = pattern(r"setattr|add_module|register_|ModuleDict|OrderedDict|__dict__|exec\(")
_NAMED_ELSEWHERE = pattern(
    r"transformers|timm|torchvision\.models|torch\.hub|from_pretrained|diffusers|monai|(?:Module|Parameter|Ordered)Dict"
    r"|setattr|add_module|register_(?:module|parameter)"
)
_OF_TORCH = (
    *("in_proj_weight", "in_proj_bias", "out_proj", "self_attn", "multihead_attn", "linear1", "linear2", "norm1"),
    *("norm2", "norm3", "norm", "layers", "encoder", "decoder", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
    *("original0", "original1", "parametrizations"),
)
_NUMBERED = ("weight", "bias")
"""So begin the names within layers, as `weight_hh_l1` does of a second recurrent one."""
_WAYS = ("startswith", "endswith")
_PLAIN = (".", "torch.", "builtins.", "math.", "numpy.")


class Asked(NamedTuple):
    """A word, and whether the name is to begin so, end so, or hold it: "startswith", "endswith", "in"."""

    word: str
    way: str


def asked_of(file: File, test: ast.expr, name: str, context: Context) -> list[Asked]:
    """`name.startswith("stem.")`, `"norm" in name`, `any(word in name for word in WORDS)`, and one or the other.

    Nothing where the test asks for anything else.
    """
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            found = [asked_of(file, value, name, context) for value in values]
            return [each for part in found for each in part] if all(found) else []
        case ast.Call(func=ast.Attribute(value=owner, attr=way), args=[words]) if way in _WAYS and is_name(owner, name):
            return [Asked(word, way) for word in _texts(file, words, context)]
        case ast.Compare(left=word, ops=[ast.In()], comparators=[held]) if is_name(held, name):
            return [Asked(each, "in") for each in _texts(file, word, context)]
        case ast.Call(func=ast.Name(id="any"), args=[ast.GeneratorExp() | ast.ListComp() as each]):
            turn = each.generators[0]
            if len(each.generators) == 1 and not turn.ifs and isinstance(turn.target, ast.Name):
                asked = _ways(name, turn.target.id).get(ast.unparse(each.elt))
                return [Asked(text, asked) for text in _texts(file, turn.iter, context)] if asked is not None else []
    return []


def _ways(name: str, word: str) -> dict[str, str]:
    return {f"{word} in {name}": "in", **{f"{name}.{way}({word})": way for way in _WAYS}}


def _texts(file: File, node: ast.expr, context: Context) -> list[str]:
    """The texts that a word, a tuple or a list of words may be, wherever it is written; none where one is unknown."""
    found: list[str] = []
    for origin in _declared(file, node, context) or origins(file, node, context):
        whole = isinstance(origin.node, ast.Tuple | ast.List | ast.Set)
        parts = origin.node.elts if isinstance(origin.node, ast.Tuple | ast.List | ast.Set) else [origin.node]
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(texts) != len(parts) or not (texts or whole):
            return []
        found += texts
    return found


def _declared(file: File, node: ast.expr, context: Context) -> list[Origin]:
    """`self.prefixes` of a class that declares it, and from which none derives."""
    method = file.method_around(context)
    name = own_attribute(node, method) if method is not None else ""
    if not name or method is None or method.cls is None or len(file.sites.once(heirs)[method.cls]) > 1:
        return []
    found = declared(method.cls, name)
    return [found] if found is not None else []


def model_of(model: Origin) -> Class | None:
    """The class of the project that a model is made of, where its parameters are named after attributes alone."""
    named = model.file.resolve(model.node.func, model.context) if isinstance(model.node, ast.Call) else None
    if model.item >= 0 or not isinstance(named, Class) or named.libraries != {MODULE}:
        return None
    return named if not any(_BY_OTHER_MEANS.search(cls.text) for cls in named.line) else None


def is_written_here(cls: Class, depth: int = 6) -> bool:
    """Whether all parts of a model are of PyTorch itself or of the project: nobody else names parameters in it."""
    for base in cls.line:
        for _, assigned in (each for sets in base.attributes.values() for each in sets):
            node = assigned.value
            handed = isinstance(node, ast.Name) or node is None
            if handed and f"self.{assigned.target.attr}(" in base.text:
                return False
            for part in walk(node) if node is not None else ():
                named = base.file.resolve(part.func, assigned.context) if isinstance(part, ast.Call) else ""
                if isinstance(named, Class):
                    if depth == 0 or not is_written_here(named, depth - 1):
                        return False
                elif not isinstance(named, str) or not f"{named}.".startswith(_PLAIN):
                    return False
    return True


def may_be_called(sites: Sites, asked: Asked) -> bool:
    """Whether anything in the program is put under such a name, in whatever class or object."""
    parts = [part for part in asked.word.split(".") if part]
    files = list(sites.files.values())
    if asked.way == "startswith":
        return _may_begin(sites, asked.word)
    if not parts or any(part.isdigit() or part.startswith(_NUMBERED) for part in parts):
        return True
    if any(_NAMED_ELSEWHERE.search(file.text) for file in files):
        return True
    names = {each.target.attr for file in files for each in file.walk.attributes} | {*_OF_TORCH}
    return all(any(part in name for name in names) for part in parts)


def _may_begin(sites: Sites, word: str) -> bool:
    first, dot, _ = word.partition(".")
    names = {each.target.attr for file in sites.mentioning([first], tests=True) for each in file.walk.attributes}
    return first in names if dot else any(name.startswith(first) for name in names)
