"""Pictures that are made floating-point numbers before `ToTensor`, which then leaves their pixels as they are.

Source: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import before_methods, last_name
from mlcheck.lint.sites.data.pixels import is_picture
from mlcheck.lint.sites.data.transforms import name_of, steps_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.origins import Origin
from mlcheck.lint.sites.project import Sites

_FLOATS = ("float32", "float", "float64", "'float32'", "'float'", "float16", "'float64'")


def left_unscaled(sites: Sites) -> Iterator[tuple[Place, Place]]:
    """`image.astype(np.float32)` of pixels up to 255, and `Compose([ToTensor(), Normalize(...)])` of that."""
    if not any(True for _ in sites.mentioning(["ToTensor"])):
        return
    for file in sites.mentioning(["float32", "astype(float"]):
        for function in file.functions:
            for call in function.all(ast.Call) if "float" in function.text else ():
                given = call.args[0] if len(call.args) == 1 and not call.keywords else None
                made, context = source(file, given, function.inner) if given is not None else (None, function.inner)
                pixels = _made_float(made)
                if made is None or pixels is None or not is_picture(Origin(file, pixels, context), pixels):
                    continue
                names = [name_of(step) for step in steps_of(Origin(file, call.func, function.inner)) or []]
                if "ToTensor" in names and "Normalize" in names[names.index("ToTensor") :]:
                    yield file.place(made, context), function.place(call)


def _made_float(node: ast.expr | None) -> ast.expr | None:
    """`image` of `image.astype(np.float32)` and of `np.float32(image)`."""
    match before_methods(node, ("copy",)) if node is not None else None:
        case ast.Call(func=ast.Attribute(value=pixels, attr="astype"), args=[kind]):
            return pixels if ast.unparse(kind).removeprefix("np.").removeprefix("numpy.") in _FLOATS else None
        case ast.Call(func=func, args=[pixels]) if last_name(func) == "float32":
            return pixels
    return None
