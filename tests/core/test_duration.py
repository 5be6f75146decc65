"""Times as people write them."""

import pytest

from mlcheck.core.duration import seconds


@pytest.mark.parametrize(
    ("text", "number"), [("60", 60), ("60s", 60), (" 1.5 m", 90), ("2min", 120), ("1h", 3600), ("0.5", 0.5)]
)
def test_times(text: str, number: float) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize("text", ["", "0", "-3", "soon", "1d", "inf", "1e3", "60 seconds"])
def test_what_is_no_time_is_told_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is no length of time: write it as 60, 60s, 2m or 1h"):
        seconds(text)
