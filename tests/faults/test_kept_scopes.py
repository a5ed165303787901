"""Scopes that outlive their proxy: what comes back, what is asked for, and a file that fails."""

import logging
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mysql_mocker.server.cluster import Cluster
from proxy.shared.shared import Shared
from proxy.state import kept_scopes
from proxy.state.scope_file import FILE_NAME, ScopeFile
from proxy.state.scope_marks import FILE_NAME as MARKS_NAME
from proxy.state.scope_marks import Marks
from proxy.state.scope_rows import Change
from proxy.state.sqlite_file import StateError
from routing.consistency.decision import Level, Scope
from tests.faults.client import Client
from tests.faults.proxy_fixture import ACCOUNTS, ProxyFixture, before, eventually
from tests.faults.table_fixture import FOREIGN, apply, count, execute, expect_refusal, probes
from tests.faults.test_terms import with_table, write_and_lose, write_as_many

FAILING = "tidegate_scope_file_failing"
INSERT = "INSERT INTO t VALUES (1)"
SHOP = "/* tidegate scope=application application='shop' */"


@asynccontextmanager
async def servers() -> AsyncIterator[Cluster]:
    """A primary and a replica with an empty table `t`, which outlive proxies."""
    async with Cluster(1, 0.0, accounts=ACCOUNTS, schemas=("test", "second")) as cluster:
        client = await Client.connect(cluster.primary.port)
        await client.log_in()
        assert (await client.query("CREATE TABLE t (id INT)")).ok
        client.abort()
        await eventually(lambda: cluster.replicas[0].gtids.executed >= _executed(cluster))
        yield cluster


def _executed(cluster: Cluster) -> Any:
    return cluster.primary.gtids.executed


@asynccontextmanager
async def proxy_of(cluster: Cluster, folder: Path, **options: Any) -> AsyncIterator[ProxyFixture]:
    """A proxy that keeps its scopes there; replicas apply nothing while it runs."""
    settings: dict[str, Any] = {"scope": Scope.USER, "wait_budget": 0.03, **options}
    async with before(
        cluster.primary.address,
        [replica.address for replica in cluster.replicas],
        cluster,
        state_dir=folder,
        **settings,
    ) as proxy:
        await proxy.caught_up()
        apply(proxy, False)
        yield proxy
        apply(proxy, True)


def known(proxy: ProxyFixture) -> dict[str, bool]:
    """Whether it is known what the scopes that are alive require, by their keys."""
    return {scope.key: not scope.unknown for scope in proxy.shared.scopes.states()}


async def kept(proxy: ProxyFixture, scopes: int) -> None:
    """Wait until so many scopes are kept as they are."""
    await eventually(
        lambda: proxy.count("tidegate_scopes_kept") == scopes and not _is_behind(proxy.shared)
    )


def _is_behind(proxy: Shared) -> bool:
    keeper = proxy.kept_scopes
    assert keeper is not None
    return bool(keeper._changed) or any(scope._is_ahead for scope in proxy.scopes.states())


def as_killed_now(folder: Path, to: Path) -> Path:
    """What somebody finds who starts after this process was killed at this moment."""
    return Path(shutil.copytree(folder, to))


# What comes back.


async def test_after_a_stop_nobody_has_to_ask(tmp_path: Path) -> None:
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path) as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            await execute(client, INSERT)
            before_stop = proxy.shared.scopes.states()[0].own
        async with proxy_of(cluster, tmp_path) as proxy:
            probes_before = probes(proxy)
            assert known(proxy) == {"app": True}
            reader, writer = await proxy.session(), await proxy.session()
            await execute(writer, "INSERT INTO t VALUES (2)")
            assert await count(reader) == 2
            assert probes(proxy) == probes_before
            assert before_stop <= proxy.shared.scopes.states()[0].own
            assert proxy.count("tidegate_scopes_restored_total", "yes") == 1


async def test_what_was_seen_has_to_be_asked_for(tmp_path: Path) -> None:
    """Which server showed it is not kept."""
    monotonic = "/* tidegate consistency=MONOTONIC_READS */"
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path) as proxy:
            client = await proxy.session()
            await execute(client, INSERT)
            assert await count(client, monotonic) == 1
        async with proxy_of(cluster, tmp_path) as proxy:
            apply(proxy, False)
            probes_before = probes(proxy)
            assert await count(await proxy.session(), monotonic) == 1
            assert probes(proxy) == probes_before + 1


async def test_what_is_not_kept_yet_is_unknown_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path / "a") as proxy:
            client, shop = await proxy.session(), await proxy.session()
            assert await count(client) == 0
            assert await count(shop, SHOP) == 0
            await kept(proxy, 2)
            monkeypatch.setattr(kept_scopes, "EVERY_S", 3600.0)  # nothing is written any more
            await execute(client, INSERT)
            found = as_killed_now(tmp_path / "a", tmp_path / "b")
        async with proxy_of(cluster, found) as proxy:
            assert known(proxy) == {"app": False, "shop": True}
            assert proxy.count("tidegate_scopes_restored_total", "no") == 1
            assert await count(await proxy.session()) == 1


async def test_what_is_kept_is_known_after_a_kill(tmp_path: Path) -> None:
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path / "a") as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            for _ in range(3):
                await execute(client, INSERT)
                await kept(proxy, 1)
            found = as_killed_now(tmp_path / "a", tmp_path / "b")
        async with proxy_of(cluster, found) as proxy:
            assert known(proxy) == {"app": True}
            assert await count(await proxy.session()) == 3


async def test_a_scope_that_was_dropped_does_not_come_back(tmp_path: Path) -> None:
    """What was written since is not in what was kept of it."""
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path / "a", scope_limit=1) as proxy:
            client = await proxy.session()
            assert await count(client, SHOP) == 0
            await kept(proxy, 1)
            assert await count(client) == 0
            await execute(client, SHOP + INSERT)
            at_once = as_killed_now(tmp_path / "a", tmp_path / "b")
            await kept(proxy, 1)
            later = as_killed_now(tmp_path / "a", tmp_path / "c")
        async with proxy_of(cluster, at_once, scope_limit=2) as proxy:
            assert not known(proxy).get("shop")
            assert await count(await proxy.session(), SHOP) == 1
        async with proxy_of(cluster, later, scope_limit=2) as proxy:
            assert "shop" not in known(proxy)
            assert await count(await proxy.session(), SHOP) == 1


async def test_an_old_scope_does_not_come_back(tmp_path: Path) -> None:
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path) as proxy:
            assert await count(await proxy.session()) == 0
        async with proxy_of(cluster, tmp_path, scope_age=1e-6) as proxy:
            assert known(proxy) == {}
            await eventually(lambda: proxy.count("tidegate_scope_writes_total") == 1)
        async with proxy_of(cluster, tmp_path) as proxy:
            assert known(proxy) == {}


async def test_what_has_no_name_is_remembered(tmp_path: Path) -> None:
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path / "a") as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            proxy.shared.scopes.record_unlogged_write("app", "")
            found = as_killed_now(tmp_path / "a", tmp_path / "b")
        for folder in (found, tmp_path / "a"):
            async with proxy_of(cluster, folder) as proxy:
                assert await count(await proxy.session()) == 0
                assert proxy.statements("primary", "unknown_required") == 1
            shutil.rmtree(folder)  # as the log says
            async with proxy_of(cluster, folder) as proxy:
                assert await count(await proxy.session()) == 0
                assert proxy.statements("primary", "unknown_required") == 0


async def test_losses_are_told_by_whoever_comes_next(tmp_path: Path) -> None:
    """Each once, whether they were found before the stop or after it."""
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path) as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            await execute(client, INSERT)
            (scope,) = proxy.shared.scopes.states()
            scope.compare_with_primary(scope.own - scope.own, scope.everything, scope.term)
            lost = scope.lost
            assert lost
        async with proxy_of(cluster, tmp_path) as proxy:
            client = await proxy.session()
            (scope,) = proxy.shared.scopes.states()
            assert (scope.lost, scope.lost_untold) == (lost, True)
            await expect_refusal(
                client, "SELECT COUNT(*) FROM t", "acknowledged writes are gone", 1105
            )
            await count(client)
        async with proxy_of(cluster, tmp_path) as proxy:
            assert await count(await proxy.session()) == 1


async def test_who_has_diverged_is_remembered(tmp_path: Path) -> None:
    """When names were given again, no comparison finds it any more."""
    async with with_table(state_dir=tmp_path / "a") as proxy:
        await write_and_lose(proxy)
        client = await proxy.session()
        await write_as_many(client)
        assert all(replica.has_diverged for replica in proxy.shared.topology.replicas)
        found = as_killed_now(tmp_path / "a", tmp_path / "b")
        replicas = proxy.cluster.replicas
        replicas[1].gtids.reset()  # made anew
        replicas[1].gtids.add(proxy.cluster.primary.gtids.executed)
        replicas[1].set_variable("server_uuid", FOREIGN)
        async with before(
            proxy.cluster.primary.address,
            [replica.address for replica in replicas],
            state_dir=found,
            consistency=Level.STRONG,
        ) as again:
            client = await again.session()
            assert [replica.has_diverged for replica in again.shared.topology.replicas] == [
                True,
                False,
            ]
            await count(client)
            assert again.statements("replica", replicas[0].address) == 0
            client.abort()
            await eventually(lambda: not again.shared.sessions)
            for session in proxy._clients:
                session.abort()


# Faults of the file.


async def test_a_file_that_is_none_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_scopes, "_FIRST_PAUSE_S", 0.01)
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path) as proxy:
            assert proxy.count(FAILING) == 1
            client = await proxy.session()
            await execute(client, INSERT)
            assert await count(client) == 1
            await eventually(lambda: proxy.count("tidegate_scope_file_errors_total") >= 2)
            (tmp_path / FILE_NAME).unlink()  # as the log says
            await eventually(lambda: proxy.count(FAILING) == 0)
            await kept(proxy, 1)
        async with proxy_of(cluster, tmp_path) as proxy:
            assert known(proxy) == {"app": True}
            assert await count(await proxy.session()) == 1
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1  # not each time
    assert "move it away: scopes begin as unknown" in errors[0]


async def test_a_disk_that_takes_nothing_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_scopes, "_FIRST_PAUSE_S", 0.01)
    write = ScopeFile.write
    full = True

    def perhaps(self: ScopeFile, changes: Sequence[Change], gone: Sequence[int]) -> Any:
        if full:
            raise StateError("the disk is full")
        return write(self, changes, gone)

    monkeypatch.setattr(ScopeFile, "write", perhaps)
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path) as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            await eventually(lambda: proxy.count(FAILING) == 1)
            full = False
            await kept(proxy, 1)
            assert proxy.count(FAILING) == 0
            full = True
            await execute(client, INSERT)
        async with proxy_of(cluster, tmp_path) as proxy:  # it could not be kept at the stop, either
            full = False
            assert known(proxy) == {"app": False}
            assert await count(await proxy.session()) == 1


async def test_without_marks_nothing_is_left_to_rely_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path / "a") as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            await kept(proxy, 1)

            def fail(self: Marks, number: int) -> None:
                raise OSError(5, os.strerror(5))

            with monkeypatch.context() as patch:
                patch.setattr(Marks, "set", fail)
                await execute(client, INSERT)
            assert proxy.count(FAILING) == 1
            found = as_killed_now(tmp_path / "a", tmp_path / "b")
            await eventually(lambda: proxy.count(FAILING) == 0)  # and begins anew
            await kept(proxy, 1)
        async with proxy_of(cluster, found) as proxy:
            assert known(proxy) == {}
            assert await count(await proxy.session()) == 1
        async with proxy_of(cluster, tmp_path / "a") as proxy:
            assert known(proxy) == {"app": True}
            assert await count(await proxy.session()) == 1


@pytest.mark.not_fast
@pytest.mark.parametrize("first_ends", ["first", "last"])
async def test_two_proxies_on_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_ends: str
) -> None:
    monkeypatch.setattr(kept_scopes, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(kept_scopes, "_LAST_PAUSE_S", 0.05)
    async with servers() as cluster:
        first = proxy_of(cluster, tmp_path)
        second = proxy_of(cluster, tmp_path)
        proxy = await first.__aenter__()
        reader = await proxy.session()
        assert await count(reader) == 0
        await kept(proxy, 1)
        other = await second.__aenter__()
        assert other.count(FAILING) == 1
        client = await other.session()
        await execute(client, INSERT)
        assert await count(client) == 1
        if first_ends == "first":
            assert proxy.shared.kept_scopes is not None
            await proxy.shared.kept_scopes.stop()
            await eventually(lambda: other.count(FAILING) == 0)
            await kept(other, 1)
        client.abort()
        reader.abort()
        await second.__aexit__(None, None, None)
        await first.__aexit__(None, None, None)
        async with proxy_of(cluster, tmp_path) as proxy:
            assert known(proxy) == {"app": first_ends == "first"}
            assert await count(await proxy.session()) == 1


@pytest.mark.parametrize("name", [FILE_NAME, MARKS_NAME])
async def test_files_that_are_removed_while_in_use(tmp_path: Path, name: str) -> None:
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path) as proxy:
            client = await proxy.session()
            assert await count(client) == 0
            await kept(proxy, 1)
            (tmp_path / name).unlink()
            await execute(client, INSERT)
            assert await count(client) == 1
        async with proxy_of(cluster, tmp_path) as proxy:
            assert not known(proxy).get("app")
            assert await count(await proxy.session()) == 1


async def test_more_scopes_than_one_turn_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_scopes, "_AT_ONCE", 3)
    async with servers() as cluster:
        async with proxy_of(cluster, tmp_path, scope_limit=20) as proxy:
            client = await proxy.session()
            keys = [f"shop {number}" for number in range(50)]
            for key in keys:
                await count(client, f"/* tidegate scope=application application='{key}' */")
            await kept(proxy, 20)
        async with proxy_of(cluster, tmp_path, scope_limit=20) as proxy:
            assert known(proxy) == dict.fromkeys(keys[-20:], True)
