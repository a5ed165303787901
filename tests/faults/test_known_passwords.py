"""Clients that show that they know a password, and never tell it."""

import pytest

from protocol.errors import AuthenticationUnsupportedError
from protocol.response import ErrPacket
from proxy.shared.known_passwords import KnownPasswords
from tests.faults.client import PASSWORD, change_user, finish_change
from tests.faults.proxy_fixture import ProxyFixture, proxy_fixture


async def fails_without_the_password(proxy: ProxyFixture, password: str = PASSWORD) -> None:
    client = await proxy.connect()
    with pytest.raises(AuthenticationUnsupportedError):
        await client.log_in(password=password, scramble_only=True)
    client.abort()


async def test_a_scramble_is_enough_once_the_primary_has_taken_the_password() -> None:
    async with proxy_fixture() as proxy:
        await fails_without_the_password(proxy)
        await proxy.session(tls=True)
        client = await proxy.session(scramble_only=True)
        assert (await client.query("SELECT CURRENT_USER()")).value == b"app@%"
        await client.query("CREATE TABLE t (id INT)")
        await client.query("INSERT INTO t VALUES (1)")
        assert (await client.query("SELECT id FROM t")).value == b"1"
        assert proxy.statements("replica") == 1  # which was given the password


async def test_another_password_has_to_be_told() -> None:
    async with proxy_fixture() as proxy:
        await proxy.session()
        await fails_without_the_password(proxy, "wrong")
        refused = await (await proxy.connect()).log_in(password="wrong")
        assert ErrPacket.parse(refused).code == 1045


@pytest.mark.parametrize("wrong", ["wrong", ""])
async def test_a_wrong_password_takes_nothing_from_who_knows_the_right_one(wrong: str) -> None:
    async with proxy_fixture() as proxy:
        await proxy.session()
        refused = await (await proxy.connect()).log_in(password=wrong)
        assert ErrPacket.parse(refused).code == 1045
        assert await proxy.session(scramble_only=True)


async def test_a_password_that_was_changed_elsewhere_is_forgotten() -> None:
    async with proxy_fixture() as proxy:
        await proxy.session()
        proxy.cluster.primary.accounts["app"] = "new"
        proxy.cluster.primary.password_cache.clear()
        await fails_without_the_password(proxy)  # the primary refuses what the scramble fits
        assert len(proxy.shared.known_passwords) == 0
        refused = await (await proxy.connect()).log_in()
        assert ErrPacket.parse(refused).code == 1045
        await proxy.session(password="new")
        await proxy.session(password="new", scramble_only=True)


async def test_who_has_an_old_password_may_tell_the_new_one_in_the_same_login() -> None:
    async with proxy_fixture() as proxy:
        await proxy.session()
        proxy.cluster.primary.accounts["app"] = "new"
        proxy.cluster.primary.password_cache.clear()
        proxy.shared.known_passwords.on_accepted("app", b"old")  # as another client has told it
        assert await proxy.session(password="new")
        assert proxy.shared.known_passwords.get("app") == b"new"


@pytest.mark.parametrize("sql", ["FLUSH PRIVILEGES", "flush local privileges"])
async def test_passwords_are_forgotten_where_a_server_forgets_them(sql: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        assert len(proxy.shared.known_passwords) == 1
        assert (await client.query(sql)).ok
        assert len(proxy.shared.known_passwords) == 0
        await fails_without_the_password(proxy)


async def test_other_statements_keep_them() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        for sql in ("FLUSH TABLES", "CREATE TABLE t (id INT)", "DROP TABLE t"):
            assert (await client.query(sql)).ok
        assert len(proxy.shared.known_passwords) == 1


async def test_a_change_of_user_by_a_scramble() -> None:
    async with proxy_fixture() as proxy:
        await proxy.session(user="other", password="word")
        client = await proxy.session()
        client.send(change_user("other"))
        assert (await finish_change(client, "word", scramble_only=True))[0] == 0x00
        assert (await client.query("SELECT CURRENT_USER()")).value == b"other@%"


async def test_nothing_is_kept_of_logins_that_were_refused_or_empty() -> None:
    async with proxy_fixture() as proxy:
        assert ErrPacket.parse(await (await proxy.connect()).log_in(password="wrong")).code == 1045
        await proxy.session(user="empty", password="")
        assert len(proxy.shared.known_passwords) == 0


def test_the_least_recently_used_goes_first() -> None:
    known = KnownPasswords(most=2)
    known.on_accepted("a", b"1")
    known.on_accepted("b", b"2")
    assert known.get("a") == b"1"
    known.on_accepted("c", b"3")
    assert [known.get(user) for user in "abc"] == [b"1", None, b"3"]
    known.on_accepted("a", b"")
    assert known.get("a") is None
