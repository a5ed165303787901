"""The reads behind writes that are timed are those of what was written."""

import pytest

from benchmarks.read_back import measure


class Remembering:
    """Reads back what was written so many writes ago."""

    def __init__(self, late: int) -> None:
        self._values = [0] * late

    def write(self, value: int) -> None:
        self._values.append(value)

    def read(self) -> bytes:
        return str(self._values.pop(0)).encode()


def test_each_read_is_timed() -> None:
    times = measure(Remembering(0), 5, 100)
    assert len(times) == 100
    assert times == sorted(times)
    assert times[0] > 0


def test_a_stale_read_ends_it() -> None:
    with pytest.raises(RuntimeError, match="instead of 5"):
        measure(Remembering(1), 5, 100)
