"""channels-reversed: pictures in OpenCV's order of colours reach a network that was pretrained on RGB."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import is_none
from mlcheck.lint.sites import OPEN, Call, Sites
from mlcheck.lint.sites.origins import callers

LOOKS_AT = "picture read by OpenCV"
WORDS = ("imread",)
_READS = "cv2.imread"
_TURNS = pattern(
    r"cvtColor|bgr|rgb|::-1|\[2, ?1, ?0\]|(?:\.|\b)flip\(|cv2\.split|channel_?(?:swap|order)|swap_?(?:rb|channels)",
    re.IGNORECASE,
)
_MEANS = pattern(r"0?\.485\d*\s*,\s*0?\.456\d*\s*,\s*0?\.406")
_MODELS = ("torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")


def check(facts: Facts) -> Iterator[Finding]:
    sites = facts.sites
    reads = [call for call in sites.calls(_READS) if _is_sample(call)]
    sites.seen[LOOKS_AT] = len(reads)
    network = _pretrained(sites) if reads else None
    if network is None or not any(_MEANS.search(file.text) for file in sites.mentioning([".485"])):
        return
    if any(_TURNS.search(file.text) for file in sites.mentioning(["cv2", "Dataset", "transform", "albumentations"])):
        return
    for call in reads:
        yield Finding(
            "OpenCV reads colours as blue, green, red, and the pretrained network has learnt red, green, blue: "
            "nothing turns them round",
            call.place.location,
            help="`cv2.cvtColor(image, cv2.COLOR_BGR2RGB)`",
            related=(network.place.location,),
        )


def _is_sample(call: Call) -> bool:
    """A picture in colour, read by a data set."""
    flags = call.argument("flags", 1)
    colour = flags is None or (flags is not OPEN and ast.unparse(flags) in ("1", "cv2.IMREAD_COLOR"))
    target = " ".join(call.file.names_given(call.node)).lower()
    homes = [call.cls]
    if call.cls is None and call.function is not None:  # `read(path)` of a file of helpers
        homes = [above.cls for above in callers(call.file.sites, call.function)]
        target = f"{target} {call.function.name.lower()}"
    read = any(cls is not None and "__getitem__" in cls.methods for cls in homes)
    return colour and read and "mask" not in target


def _pretrained(sites: Sites) -> Call | None:
    """The call that makes a network with the weights of ImageNet."""
    for file in sites.mentioning(["pretrained", "weights"]):
        for calls in file.walk.calls.values():
            for node, context in calls:
                words = [word for word in node.keywords if word.arg in ("pretrained", "weights", "encoder_weights")]
                if not words or not file.called(node, context).startswith(_MODELS):
                    continue
                call = Call(file, node, context)
                if all(_is_on(call, word.value) for word in words):
                    return call
    return None


def _is_on(call: Call, value: ast.expr) -> bool:
    if is_none(value):
        return False
    told = call.file.constant(value, call.context)
    return told is True or (isinstance(told, str) and bool(told)) or "Weights." in ast.unparse(value)
