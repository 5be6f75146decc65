"""Judges whether the data comes in the scale that a pretrained network was trained on."""

from __future__ import annotations

import math
from statistics import median

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model.running_statistics import RunningStatistics

FAR = 2.5
FAR_IN_TRAINING = 5.0
FEW_CHANNELS = 4
FAR_IN_FEW = 10.0  # a few channels may be alike by chance
ALIKE = 1.4
MOST = 0.9


def check(seen: RunningStatistics) -> Verdict:
    spreads = [math.sqrt(ratio) for ratio in seen.ratios]
    middle = median(spreads)
    alike = sum(middle / ALIKE <= spread <= middle * ALIKE for spread in spreads) / len(spreads)
    told = f"what enters `{seen.name}` spreads {middle:.3g} times as wide as its running statistics say"
    limit = FAR_IN_FEW if len(spreads) < FEW_CHANNELS else FAR_IN_TRAINING if seen.training else FAR
    numbers = {"ratio of spreads": middle, "channels alike": alike}
    if 1 / limit <= middle <= limit or alike < MOST:
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=len(spreads))
    message = (
        f"{told}, in {100 * alike:.3g} % of {len(spreads)} channels alike: the inputs are not scaled as those that the "
        "weights were trained on"
    )
    help_ = "scale inputs as for the pretraining (its mean and deviation; 0 to 1 or 0 to 255)"
    finding = Finding(message, Location(symbol=seen.name.partition(" ")[0]), help=help_, numbers=numbers)
    return Verdict(Outcome.WARN, message, findings=(finding,), numbers=numbers, looked_at=len(spreads))
