"""Judges whether a nonlinearity stands between linear layers."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.affine import ROUNDING, AffineModel
from mlcheck.probe.measure.model.convolution_pairs import ConvolutionPairs
from mlcheck.probe.measure.model.wiring import Wiring

DEEP = 2.5
QUERY_KEY_VALUE = 3  # made by one layer, they meet in attention, each as good as from a layer of its own
MOST = 0.5  # of the convolutions: here and there one smooths what another made


def check(seen: Wiring, whole: AffineModel | None, convolutions: ConvolutionPairs | None) -> Verdict:
    useless = [pair for pair in seen.pairs if pair.widths[1] >= min(pair.widths[0], pair.widths[2])]
    useless = [pair for pair in useless if pair.widths[2] != QUERY_KEY_VALUE * pair.widths[1]]
    findings = tuple(
        Finding(
            f"`{pair.first}` ({pair.widths[0]} to {pair.widths[1]}) feeds `{pair.second}` ({pair.widths[1]} to "
            f"{pair.widths[2]}) with nothing between: together they are one linear layer",
            Location(symbol=pair.first),
            help="put an activation (ReLU, GELU) between them, or leave one out",
        )
        for pair in useless
    )
    if not findings and whole and whole.layers > 2 and whole.bends <= ROUNDING and whole.depth > DEEP:
        findings = (_straight(whole),)
    if not findings and convolutions:
        findings = _joined(convolutions)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.linears)
    if seen.linears < 2 and (whole is None or whole.layers < 2):
        return Verdict(Outcome.SKIP, reason="fewer than two linear layers ran")
    narrow = f"; {len(seen.pairs)} follow one another through a bottleneck" if seen.pairs else ""
    bent = "; the model as a whole is no affine function" if whole and whole.bends > ROUNDING else ""
    return Verdict(
        Outcome.PASS,
        f"no two of {plural(seen.linears, 'linear layer')} are joined without effect{narrow}{bent}",
        looked_at=seen.linears,
    )


def _straight(whole: AffineModel) -> Finding:
    return Finding(
        f"no activation bends anything in `{whole.model}`: its {whole.layers} layers, one after the other, are one "
        f"affine function of the input (between two samples the output lies on a straight line, within "
        f"{whole.bends:.0e})",
        Location(symbol=whole.model),
        help="put an activation (ReLU, GELU) behind each layer but the last",
        numbers={"layers": float(whole.layers)},
    )


def _joined(convolutions: ConvolutionPairs) -> tuple[Finding, ...]:
    useless = [pair for pair in convolutions.pairs if not pair.is_bottleneck]
    if not useless or len(useless) < MOST * (convolutions.layers - 1):
        return ()
    return tuple(
        Finding(
            f"the convolution `{pair.first}` feeds `{pair.second}` with no activation between: together they are one "
            "convolution with a wider kernel",
            Location(symbol=pair.first),
            help="put an activation (ReLU, GELU) between them, behind the norm if there is one",
        )
        for pair in useless
    )
