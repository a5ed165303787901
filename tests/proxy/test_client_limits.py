"""Limits of clients, without any: addresses, rates, and their options."""

from pathlib import Path

import pytest

from proxy.address import Address
from proxy.config import Config, ConfigError, load
from proxy.live_config import LiveConfig
from proxy.shared.client_limits import ClientLimits, network_of
from proxy.state.client_counts import ClientCounts
from tests.faults.proxy_fixture import materials


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time


def limits(clock: Clock, **options: int) -> ClientLimits:
    config = Config(Address("db", 3306), **options)  # type: ignore[arg-type] # all are numbers
    live = LiveConfig(config, materials())
    return ClientLimits(live, ClientCounts(), clock.now)


def comes(found: ClientLimits, host: str) -> bool:
    """Whether a client of that host is let in; it leaves at once."""
    admission = found.begin()
    refused = admission.connect() or admission.come_from(host)
    admission.leave()
    return refused is None


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1:2::3", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("localhost", "localhost"),
    ],
)
def test_whose_clients_count_together(host: str, network: str) -> None:
    assert network_of(host) == network


def test_a_rate_allows_a_burst_of_a_second() -> None:
    clock = Clock()
    found = limits(clock, max_login_rate=3)
    assert [comes(found, "10.0.0.1") for _ in range(5)] == [True, True, True, False, False]
    assert comes(found, "10.0.0.2")
    clock.time += 0.34
    assert [comes(found, "10.0.0.1") for _ in range(2)] == [True, False]
    clock.time += 60
    assert [comes(found, "10.0.0.1") for _ in range(4)] == [True, True, True, False]


def test_each_worker_allows_its_share() -> None:
    found = limits(Clock(), max_login_rate=8, workers=4)
    assert [comes(found, "10.0.0.1") for _ in range(3)] == [True, True, False]


def test_addresses_are_forgotten_rather_than_kept_without_end() -> None:
    found = limits(Clock(), max_login_rate=1)
    for number in range(10_000):
        comes(found, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(found._rates) == 4096
    assert not comes(found, "10.0.39.15")
    assert comes(found, "10.0.0.1")


def test_options(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(
        'primary = "db"\nadmins = ["dba", "ops"]\nmax-user-connections = 5\n'
        '[users.shop]\nmax_user_connections = 7\nscope = "user"\n'
        "[users.cron]\nmax-user-connections = 1\n"
    )
    config = load(file, {})
    assert config.admins == ("dba", "ops")
    assert config.user_limits == {"shop": 7, "cron": 1}
    assert list(config.users) == ["shop", "cron"]
    again = tmp_path / "again.toml"
    again.write_text("".join(x for x in config.to_toml().splitlines(True) if x[0] != "#"))
    assert load(again, {}) == config


@pytest.mark.parametrize("text", ["0", '"many"', "-1", "1.5"])
def test_a_wrong_number_of_a_user_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(f'primary = "db"\n[users.shop]\nmax-user-connections = {text}\n')
    with pytest.raises(ConfigError, match=r"\[users.shop\]: max-user-connections = .*from 1 to"):
        load(file, {})


def test_no_other_table_has_that_number(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('primary = "db"\n[schemas.shop]\nmax-user-connections = 1\n')
    with pytest.raises(ConfigError, match="cannot be set in a table"):
        load(file, {})
