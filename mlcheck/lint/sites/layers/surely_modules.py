"""Expressions that are modules for certain: what makes one, and the parts of one, the project's or a library's."""

from __future__ import annotations

import ast

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.layers.modules import PARAMETER, is_module, makes_module
from mlcheck.lint.sites.model import Class
from mlcheck.lint.sites.origins import Origin, origins
from mlcheck.lint.sites.scopes import Context

_LIBRARY_MODELS = pattern(
    r"torchvision\.models\.(?:\w+\.)*[a-z]\w*|timm\.(?:models\.)?create_model"
    r"|transformers\.(?:models\.[\w.]+\.)?[A-Z]\w*(?:Model|For[A-Z]\w+)\.from_pretrained"
)
_PARTS = frozenset(["conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc", "avgpool", "features", "classifier"])
_PARTS |= {"backbone", "head", "heads", "encoder", "decoder", "rpn", "roi_heads", "conv_proj", "AuxLogits"}
_PARTS |= {"patch_embed", "blocks", "stages", "stem", "conv_stem", "conv_head", "embeddings", "pooler", "bert"}
_PARTS |= {"roberta", "distilbert", "vit", "transformer", "base_model", "lm_head", "vision_model", "text_model"}
_PARTS |= {"layer", "layers"}
"""Names of modules, not of parameters, in the networks of these libraries."""
_SEQUENCES = frozenset(["torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"])
_DEPTH = 4


def is_surely_module(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> bool:
    """Whether it is a module wherever it may come from: `self.encoder`, `net.layer4[0]`, `getattr(net, "fc")`."""
    loops = _loops(file, node, context)
    if loops:
        return depth > 0 and all(_goes_through_modules(file, loop, where, depth - 1) for loop, where in loops)
    found = origins(file, node, context)
    return bool(found) and all(_is_module(origin, node, depth) for origin in found)


def _is_module(origin: Origin, asked: ast.expr, depth: int) -> bool:
    file, node, context = origin.file, origin.node, origin.context
    if origin.item >= 0 or depth == 0:
        return False
    match node:
        case ast.Attribute(value=owner, attr=name):
            return _has_part(file, owner, name, context)
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, name]):
            names = _constants(file, name, context)
            return bool(names) and all(_has_part(file, owner, each, context) for each in names)
        case ast.Call():
            named = file.resolve(node.func, context)
            is_made = makes_module(file, node, context) and named != PARAMETER
            return is_made or (isinstance(named, str) and _LIBRARY_MODELS.fullmatch(named) is not None)
        case ast.Subscript(value=sequence):
            return _is_sequence(file, sequence, context, depth - 1)
    return False


def _has_part(file: File, owner: ast.expr, name: str, context: Context) -> bool:
    found = origins(file, owner, context)
    return bool(found) and all(has_module(origin, name) for origin in found)


def has_module(model: Origin, name: str) -> bool:
    """Whether a model of the project or of a library has a module of that name."""
    if _LIBRARY_MODELS.fullmatch(model.name):
        return name in _PARTS
    named = model.file.resolve(model.node.func, model.context) if isinstance(model.node, ast.Call) else None
    sets = named.attribute(name) if isinstance(named, Class) and is_module(named) else []
    return bool(sets) and all(
        each.value is not None
        and _makes(where.file, each.value, each.context)
        and "Parameter" not in ast.unparse(each.value)
        for where, each in sets
    )


def _makes(file: File, node: ast.expr, context: Context) -> bool:
    named = file.resolve(node.func, context) if isinstance(node, ast.Call) else None
    of_library = isinstance(named, str) and _LIBRARY_MODELS.fullmatch(named) is not None
    return of_library or makes_module(file, node, context)


def _is_sequence(file: File, node: ast.expr, context: Context, depth: int) -> bool:
    """Whether the items of a module are modules, too: those of `nn.ParameterList` are not."""
    if isinstance(node, ast.Attribute) and _has_part(file, node.value, node.attr, context):
        made = origins(file, node, context)
        if all(isinstance(origin.node, ast.Attribute) for origin in made):
            return True  # of a library's network: `net.features[0]`
    found = origins(file, node, context)
    return depth > 0 and bool(found) and all(origin.name in _SEQUENCES for origin in found)


def _loops(file: File, node: ast.expr, context: Context) -> list[tuple[ast.For, Context]]:
    """The loops that bind a name; none where it is bound in any other way."""
    bound = file.bindings(node.id, context) if isinstance(node, ast.Name) else []
    loops = [(each.node, each.context) for each in bound if isinstance(each.node, ast.For)]
    plain = all(isinstance(loop.target, ast.Name) for loop, _ in loops)
    return loops if plain and len(loops) == len(bound) else []


def _goes_through_modules(file: File, loop: ast.For, context: Context, depth: int) -> bool:
    """`for part in [net.conv1, net.layer1]`, `for layer in self.layers[:4]`."""
    over = loop.iter
    if isinstance(over, ast.List | ast.Tuple):
        return bool(over.elts) and all(is_surely_module(file, item, context, depth) for item in over.elts)
    if isinstance(over, ast.Subscript) and isinstance(over.slice, ast.Slice):
        over = over.value
    return not isinstance(over, ast.Call) and _is_sequence(file, over, context, depth)


def _constants(file: File, node: ast.expr, context: Context) -> list[str]:
    """The strings that a name may hold."""
    loops = _loops(file, node, context)
    displays = [_by_default(origin) for loop, where in loops for origin in origins(file, loop.iter, where)]
    items = [item for over in displays for item in (over.elts if isinstance(over, ast.List | ast.Tuple) else [over])]
    items = items if loops else [node]
    known = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return known if len(known) == len(items) else []


def _by_default(origin: Origin) -> ast.expr:
    """What a parameter holds that no call in sight gives: its default."""
    node = origin.node
    function = origin.file.function_around(origin.context)
    default = function.parameters.get(node.id) if function is not None and isinstance(node, ast.Name) else None
    return node if default is None else default


def is_checked(file: File, name: str, context: Context) -> bool:
    """Whether this stands under `if isinstance(name, nn.Module):`."""
    for outer in context.outwards():
        test = outer.node.test if isinstance(outer.node, ast.If) and outer.arm == "body" else None
        if isinstance(test, ast.Call) and len(test.args) == 2 and isinstance(test.args[0], ast.Name):
            named = file.resolve(test.args[1], context)
            if test.args[0].id == name and named == "torch.nn.Module":
                return True
    return False
