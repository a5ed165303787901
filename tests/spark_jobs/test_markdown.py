"""Numbers, times, texts and tables."""

import pytest

from spark_jobs.markdown import brief, code, counted, escaped, moment, plain, span, table
from spark_jobs.tables.row import Row


@pytest.mark.parametrize(
    ("microseconds", "told"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_000, "1.00 ms"),
        (-1_500, "-1.50 ms"),
        (99_960, "100 ms"),
        (999_499, "999 ms"),
        (999_500, "1.00 s"),
        (59_940_000, "59.9 s"),
        (3_600_000_000, "3,600 s"),
    ],
)
def test_a_span_has_three_digits_and_a_unit(microseconds: int, told: str) -> None:
    assert span(microseconds) == told


def test_small_words() -> None:
    assert (counted(0, "read"), counted(1, "read"), counted(2000, "read")) == (
        "0 reads",
        "1 read",
        "2,000 reads",
    )
    assert moment(1_795_996_800_000_001) == "2026-11-30 00:00:00.000001"
    assert brief("x" * 200) == "x" * 200
    assert brief("x" * 201) == "x" * 200 + "…"
    rows = [("x|y", 1000, "5.0%", "10.0.0.1:3306"), ("z\n", -2, "1.00 ms", "10.0.0.2:3306")]
    assert table(("a", "b", "c", "d"), rows) == (
        "| a | b | c | d |\n| --- | ---: | ---: | --- |\n"
        "| x\\|y | 1,000 | 5.0% | 10.0.0.1:3306 |\n| z\\\\n | -2 | 1.00 ms | 10.0.0.2:3306 |"
    )
    with pytest.raises(TypeError):
        Row({"a": None}).text("a")
    with pytest.raises(TypeError):
        Row({"a": "1"}).number("a")
    with pytest.raises(TypeError):
        Row({"a": 1}).share("a")
    with pytest.raises(TypeError):
        Row({"a": None}).rows("a")


@pytest.mark.parametrize(
    ("text", "line", "span"),
    [
        ("a.b_c-1", "a.b_c-1", "`a.b_c-1`"),
        ("a`b", "a\\`b", "`` a`b ``"),
        ("[x](y)|*<b>", "\\[x\\](y)\\|\\*\\<b\\>", "`[x](y)|*<b>`"),
        ("a\n\x1b[0m\u202eb", "a\\\\n\\\\x1b\\[0m\\\\u202eb", "`a\\n\\x1b[0m\\u202eb`"),
        ("\u2028\ud800é", "\\\\u2028\\\\ud800é", "`\\u2028\\ud800é`"),
        ("\U0010fcf6", "\\\\U0010fcf6", "`\\U0010fcf6`"),
    ],
)
def test_a_text_from_a_log_is_nothing_but_text(text: str, line: str, span: str) -> None:
    assert escaped(text) == line
    assert code(text) == span
    assert "\n" not in plain(text)
