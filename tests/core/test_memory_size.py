"""Amounts of memory, read and written."""

import pytest

from mlcheck.core.memory_size import byte_count, written


@pytest.mark.parametrize(
    ("text", "size"),
    [("800MB", 800 * 10**6), ("1.5 GiB", 3 * 2**29), (" 2gb ", 2 * 10**9), ("64KiB", 65536), ("1TB", 10**12)],
)
def test_an_amount_is_read_in_bytes(text: str, size: int) -> None:
    assert byte_count(text) == size


@pytest.mark.parametrize("text", ["", "8", "8 G", "-1GB", "0GB", "GB", "8GBs"])
def test_what_is_no_amount_is_told_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is no amount of memory: write it as 800MB or 8GB"):
        byte_count(text)


def test_it_is_written_as_people_do() -> None:
    assert [written(size) for size in (1.5e9, 512e6, 63.4e9)] == ["1.5 GB", "512 MB", "63.4 GB"]
