"""scaler-with-bf16: gradients are scaled against an underflow that bfloat16 does not have."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Call

LOOKS_AT = "gradient scaler"
WORDS = ("GradScaler",)
_SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler")
_AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")
_BRAIN = ("torch.bfloat16",)
_HALF = ("float16", "fp16", "torch.half")


def check(facts: Facts) -> Iterator[Finding]:
    sites = facts.sites
    made = list(sites.calls(*_SCALERS))
    sites.seen[LOOKS_AT] = len(made)
    scalers = [call for call in made if call.argument("enabled") is None]
    casts = list(sites.calls(*_AUTOCASTS)) if scalers else []
    if not casts or not all(_is_brain(call) for call in casts):
        return
    texts = (file.text.replace("bfloat16", "") for file in sites.files.values())
    if any(word in text for text in texts for word in _HALF):
        return
    for call in scalers:
        yield Finding(
            "bfloat16 has the range of float32: there is nothing to scale, and every step waits for the check",
            call.place.location,
            help="leave the scaler out: `loss.backward()` and `optimizer.step()`",
            related=(casts[0].place.location,),
        )


def _is_brain(call: Call) -> bool:
    """`dtype=torch.bfloat16`, written there."""
    given = call.argument("dtype", 0 if call.name.startswith(("torch.cuda", "torch.cpu")) else 1)
    if given is None:
        return False
    held, context = call.file.value(given, call.context)
    return call.file.resolve(held, context) in _BRAIN
