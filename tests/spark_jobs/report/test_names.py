"""Long names, shortened."""

import pytest

from spark_jobs.report.names import shorten

ORDERS = [f"db-orders-prod-eu-central-1-{number}.cluster.example.com:3306" for number in (17, 18)]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["r1:3306", "replica-2:3306"], ["r1:3306", "replica-2:3306"]),
        (ORDERS, ["db-order…tral-1-17…:3306", "db-order…tral-1-18…:3306"]),
        (
            ["replica-7.eu-central-1.example:3306", "replica-7.eu-central-2.example:3306"],
            ["replica-7…1.example:3306", "replica-7…2.example:3306"],
        ),
        (["a_user_with_quite_a_long_name"], ["a_user_with…_a_long_name"]),
        ([], []),
    ],
)
def test_both_ends_and_the_port_stay(names: list[str], short: list[str]) -> None:
    assert list(shorten(names).values()) == short or sorted(shorten(names).values()) == short


def test_what_would_look_alike_is_cut_less() -> None:
    names = [f"{'a' * 15}{middle}{'b' * 30}" for middle in "xyz"]
    short = shorten(names)
    assert len(set(short.values())) == 3
    assert all("…" in text and len(text) < 46 for text in short.values())


@pytest.mark.parametrize("name", [":" * 60, "." * 60, "a:" + "1" * 60, "x." * 40, "…" * 50])
def test_no_name_breaks_it(name: str) -> None:
    assert shorten([name, "r1"])["r1"] == "r1"
    assert len(shorten([name])[name]) <= len(name)
