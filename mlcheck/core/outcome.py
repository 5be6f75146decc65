"""The closed sets a checklist is written in: how much a rule matters, what came out, who answered."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How much a defect matters; never what came out of looking for it."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Outcome(StrEnum):
    """What came out of one check. Nothing looked at is SKIP, never PASS."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    SKIP = "skip"
    ERROR = "error"
    WAIVED = "waived"
    PENDING = "pending"

    @property
    def decides(self) -> bool:
        """Whether the question was answered: these outcomes overrule weaker evidence."""
        return self in {Outcome.PASS, Outcome.WARN, Outcome.FAIL}


class By(StrEnum):
    """Who answered, from the strongest evidence to the weakest: seen, read, said."""

    PROBE = "probe"
    LOAD = "load"
    LINT = "lint"
    SIGN_OFF = "sign-off"

    @property
    def strength(self) -> int:
        """2 for what was seen running, 1 for what was read in the code, 0 for what a person said."""
        return {By.PROBE: 2, By.LOAD: 2, By.LINT: 1, By.SIGN_OFF: 0}[self]


class Stage(StrEnum):
    """The stages of a project, in the order a checklist walks through them."""

    SCOPE = "scope"
    DATA = "data"
    DESIGN = "design"
    TRAINING = "training"
    VALIDATION = "validation"
    SPEED = "speed"
    SCALE = "scale"
    LAUNCH = "launch"


SEVERITY_OUTCOME = {Severity.ERROR: Outcome.FAIL, Severity.WARNING: Outcome.WARN, Severity.NOTE: Outcome.PASS}


class Profile(StrEnum):
    """What a checklist is for: which stages of a project it asks about."""

    FIRST_RUN = "first-run"
    LONG_RUN = "long-run"
    LAUNCH = "launch"

    @property
    def stages(self) -> frozenset[Stage]:
        """A first run needs no speed and no scale, and nothing but a launch asks what a launch asks."""
        left_out = {Profile.FIRST_RUN: {Stage.SPEED, Stage.SCALE, Stage.LAUNCH}, Profile.LONG_RUN: {Stage.LAUNCH}}
        return frozenset(Stage) - left_out.get(self, set())
