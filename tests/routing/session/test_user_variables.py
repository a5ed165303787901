"""What is known of user variables."""

import pytest

from routing.session.user_variables import UserVariables
from routing.sql.statement import classify
from routing.sql.user_variables import name_of


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (b"@a", "a"),
        (b"@A.b$_1", "a.b$_1"),
        (b"@`Ab`", "ab"),
        (b"@'a'", "a"),
        (b'@"a"', "a"),
        (b"@", "*"),
        (b"@'a '", "*"),  # equal to @a
        (b"@`a``b`", "*"),
        ("@é".encode(), "*"),  # equal to @e
    ],
)
def test_names(token: bytes, name: str) -> None:
    assert name_of(token) == name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT @a, @B, @a", ("a", "b")),
        ("SELECT a FROM t WHERE b = @`x`", ("x",)),
        ("SHOW TABLES WHERE Tables_in_d = @a", ("a",)),
        ("SELECT 1", ()),
        ("SELECT @a, @@autocommit", ()),  # not of the class READ
        ("SELECT @a := 1", ()),
        ("SELECT @a FOR UPDATE", ()),
    ],
)
def test_names_that_a_read_mentions(text: str, names: tuple[str, ...]) -> None:
    assert classify(text.encode()).user_variables == names


@pytest.mark.parametrize(
    "literal",
    ["5", "-5", "5.0", "5e0", "0x41", "0b1", "'a'", "''", '"a"', "NULL", "true", "False", ".5"],
)
def test_literals_are_known(literal: str) -> None:
    variables = UserVariables()
    variables.assign("a", literal)
    assert variables.value("a") == literal


@pytest.mark.parametrize("literal", [None, "DEFAULT", "ON", "'" + "a" * 2000, "9" * 500])
def test_other_values_are_not(literal: str | None) -> None:
    variables = UserVariables()
    variables.assign("a", "1")
    variables.assign("a", literal)
    assert variables.value("a") is None
    assert not variables.know(("b", "a"))
    assert variables.know(("b", "c"))


def test_null_keeps_the_type_of_the_value_before() -> None:
    variables = UserVariables()
    variables.assign("a", "NULL")
    variables.assign("a", "NULL")
    assert variables.value("a") == "NULL"
    variables.assign("a", "1")
    variables.assign("a", "NULL")
    assert variables.value("a") is None


def test_what_was_never_assigned_is_null_until_something_may_have_assigned_it() -> None:
    variables = UserVariables()
    variables.assign("a", "1")
    assert variables.value("b") == ""
    assert variables.know(("*",))
    assert variables.expanded(("b", "*")) == ("a",)
    assert variables.expanded(("b",)) == ("b",)
    variables.assign("a", None)
    assert not variables.know(("*",))
    variables.forget()
    assert not variables.know(("*",))
    assert not variables.know(("a",))
    assert not variables.know(("b",))
    variables.assign("b", "2")
    assert variables.know(("b",))
    variables.assign("*", "3")  # one that may be equal to b
    assert not variables.know(("b",))
    variables.clear()
    assert variables.know(("a", "b"))


def test_strings_that_would_be_read_in_another_way() -> None:
    variables = UserVariables()
    variables.assign("a", "1")
    variables.assign("b", "'x'")
    variables.assign("c", '"x"')
    variables.forget_strings()
    assert variables.know(("a", "d"))
    assert variables.value("b") is variables.value("c") is None


def test_there_is_a_bound() -> None:
    variables = UserVariables()
    for number in range(1000):
        variables.assign(f"v{number}", "1")
    assert not variables.know(("v0",))
    assert variables.know(("v999",))
    assert len(variables._values) <= 256
