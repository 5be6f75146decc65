"""pretrained-normalisation: a pretrained network gets images in another range than it was trained with."""

import ast
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call
from mlcheck.lint.sites.data.float_pixels import left_unscaled
from mlcheck.lint.sites.data.loaders import loaders
from mlcheck.lint.sites.data.transforms import name_of, transforms_of
from mlcheck.lint.sites.origins import Origin

LOOKS_AT = "pretrained image model"
WORDS = ("torchvision",)
_MODELS = (
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg13", "vgg16", "vgg19", "alexnet"),
    *("vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn", "densenet121", "densenet161", "densenet169", "densenet201"),
    *("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0", "efficientnet_b1", "vit_b_16"),
    *(
        "resnext50_32x4d",
        "wide_resnet50_2",
        "convnext_tiny",
        "convnext_small",
        "convnext_base",
        "swin_t",
        "squeezenet1_0",
    ),
)
_SCALES = ("ToTensor", "ToDtype", "ConvertImageDtype", "ToImageTensor", "ToImage", "PILToTensor")
_ELSEWHERE = pattern(r"[Nn]ormali[sz]|0\.485|transforms\(\)|\bmeans?\b(?!\()|MEAN|_mean\b(?!\()")


def check(facts: Facts) -> Iterator[Finding]:
    sites = facts.sites
    made = [call for call in sites.calls(*(f"torchvision.models.{name}" for name in _MODELS)) if _is_pretrained(call)]
    sites.seen[LOOKS_AT] = len(made)
    for place, given in left_unscaled(sites) if made else ():
        yield Finding(
            "`ToTensor` scales bytes alone: of floating-point numbers it leaves the pixels at 0 to 255, and what is "
            "subtracted and divided by is meant for 0 to 1",
            place.location,
            help="give it the bytes as they are, or divide by 255 here",
            related=(given.location,),
        )
    if not made or any(_ELSEWHERE.search(file.text) for file in sites.files.values()):
        return
    for loader in sites.once(loaders):
        steps = transforms_of(loader.data[0]) if len(loader.data) == 1 else None
        if steps and loader.trained and _scales_alone(steps):
            yield Finding(
                "The pretrained network was trained on normalised images, and gets them in the range 0 to 1",
                loader.call.place.location,
                help="add `Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])`, or use `weights.transforms()`",
                related=(made[0].place.location,),
            )


def _is_pretrained(call: Call) -> bool:
    """`pretrained=True`, or `weights=` anything that is written out and not None."""
    if call.constant("pretrained", 0) is True:
        return True
    given = call.argument("weights", None)
    return given is not None and (
        isinstance(call.constant("weights"), str)
        or (isinstance(given, ast.Attribute) and "Weights" in ast.unparse(given))
    )


def _scales_alone(steps: list[Origin]) -> bool:
    """Whether every step is known, one makes numbers from 0 to 1 of the pixels, and none shifts them."""
    known = all(step.name.startswith("torchvision.transforms.") and name_of(step) != "Lambda" for step in steps)
    return known and any(name_of(step) in _SCALES for step in steps)
