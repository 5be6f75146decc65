"""What is said of an error in the user's code."""

import numpy as np
import pytest

from mlcheck.trial.traceback import error_line, user_frame, user_traceback


def load() -> None:
    raise ValueError("two ways: \x1b[1mthis one\x1b[0m.\nand another")


def test_colours_that_a_message_brings_for_a_terminal_are_left_out() -> None:
    with pytest.raises(ValueError, match="two ways") as raised:
        load()
    assert error_line(raised.value) == "ValueError: two ways: this one."
    assert "two ways: this one.\nand another" in user_traceback(raised.value)


def test_a_long_message_ends_at_a_word_and_says_so() -> None:
    told = error_line(RuntimeError("again and " * 60))
    assert told.endswith(("again …", "and …"))
    assert len(told) <= 302
    assert error_line(RuntimeError("x" * 10), most=12).endswith("…")


def test_an_error_in_a_compiled_module_is_told_at_the_line_that_called_it() -> None:
    with pytest.raises(ValueError, match="greater than 0") as raised:
        np.random.choice(0, 3)
    place = user_frame(raised.value.__traceback__)
    assert place is not None
    assert place[0] == __file__
