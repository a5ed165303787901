"""sql_mode as words and as the number that a binary log has. The numbers are a 9.7.4 server's."""

import pytest

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.sql_mode import bits, stored

STRICT = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
)
ANSI = "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY,ANSI"


@pytest.mark.parametrize(
    ("value", "words", "number"),
    [("", "", 0), (STRICT, STRICT, 1168113696), ("ansi", ANSI, 262191)],
)
def test_words_and_bits(value: str, words: str, number: int) -> None:
    assert stored(value) == words
    assert bits(words) == number
    assert stored(number) == words


@pytest.mark.parametrize("value", ["ANSI,NONE", 1 << 4, 1 << 33, -1])
def test_unknown_modes_are_refused(value: str | int) -> None:
    with pytest.raises(MySQLError, match="Variable 'sql_mode' can't be set to the value of"):
        stored(value)
