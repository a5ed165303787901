"""The question which views there are, where its answer is refused, late, lost or out of date."""

import asyncio
import json

import pytest

from proxy.server.view_question import QUESTION
from proxy.shared import catalogues
from routing.session.session import NO_ROLE
from tests.faults import peers
from tests.faults.proxy_fixture import ProxyFixture, eventually
from tests.faults.table_fixture import COUNT, count, table_fixture

REFUSED = b"\x09\x00\x00\x01\xff\x25\x05#70100"


def answer(views: list[tuple[str, str]]) -> bytes:
    """An answer: views and their definitions, of nothing else."""
    definitions = json.dumps([["test", *view] for view in views]).encode()
    return peers.rows([b"%d" % len(views), definitions, None], columns=3)


def questions(proxy: ProxyFixture) -> float:
    return proxy.count("tidegate_view_questions_total")


def reading() -> bool:
    return any(task.get_name() == "read views" for task in asyncio.all_tasks())


async def test_a_question_that_is_refused_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "_RETRY_S", 0.0)
    async with table_fixture() as proxy:
        proxy.shared.catalogues.forget()
        primary = proxy.cluster.primary
        primary.faults.raw_reply(REFUSED, matching=QUESTION)
        client = await proxy.session()  # asks at its login
        primary.faults.raw_reply(REFUSED, matching=QUESTION)
        before = proxy.statements("replica")
        count_before = questions(proxy)
        await count(client)  # asks in front of this
        await count(client)  # and of this
        await count(client)  # behind what may have been anything
        assert questions(proxy) == count_before + 2
        assert proxy.statements("replica") == before
        await count(client)
        assert proxy.statements("replica") == before + 1


async def test_nobody_waits_for_the_question_of_another() -> None:
    async with table_fixture() as proxy:
        client, other = await proxy.session(), await proxy.session()
        proxy.shared.catalogues.forget()
        count_before = questions(proxy)
        gate = proxy.cluster.primary.faults.hold_reply(matching=QUESTION)
        client.send(b"\x03" + COUNT.encode())
        await eventually(lambda: gate.held)
        before = proxy.statements("primary")
        await count(other)
        assert proxy.statements("primary") == before + 1
        # What was asked before a view changed says nothing of what there is now.
        proxy.shared.catalogues.forget()
        gate.open()
        await client.answer()
        assert questions(proxy) == count_before + 1
        for _ in range(2):  # behind what may have been anything, and with the question
            await count(other)
        assert questions(proxy) == count_before + 2
        before = proxy.statements("replica")
        await count(other)
        assert proxy.statements("replica") == before + 1


async def test_a_primary_that_is_lost_within_its_answer() -> None:
    async with table_fixture() as proxy:
        client, other = await proxy.session(), await proxy.session()
        proxy.shared.catalogues.forget()
        proxy.cluster.primary.faults.drop_connection_after(3, matching=QUESTION)
        error = (await client.query(COUNT)).error
        assert error is not None
        assert error.code == 2013
        before = proxy.statements("replica")
        await count(other)
        await count(other)
        assert proxy.statements("replica") == before + 1


async def test_a_primary_that_is_lost_while_it_is_asked_at_a_login() -> None:
    async with table_fixture() as proxy:
        proxy.shared.catalogues.forget()
        proxy.cluster.primary.faults.drop_connection_after(3, matching=QUESTION)
        with pytest.raises(AssertionError, match="Lost connection"):
            await proxy.session()
        other = await proxy.session()
        await count(other)
        before = proxy.statements("replica")
        await count(other)
        assert proxy.statements("replica") == before + 1


async def test_an_answer_that_is_read_for_long_is_not_taken_for_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogues, "_TURN_S", 0.0)
    plain = [(f"v{number}", "select 1 AS `c`") for number in range(5000)]
    async with table_fixture() as proxy:
        client, other = await proxy.session(), await proxy.session()
        known = proxy.shared.catalogues
        known.forget()
        faults = proxy.cluster.primary.faults
        faults.raw_reply(answer(plain), matching=QUESTION)
        faults.raw_reply(answer([("t", "select connection_id() AS `c`")]), QUESTION, None)
        await count(client)
        client.abort()
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        account = known.of("app", NO_ROLE)
        assert reading()
        known.forget()
        await count(other)
        await eventually(lambda: len(account.catalogue.names) == 1)
        await eventually(lambda: not reading())  # the first one is read, too
        before = proxy.statements("replica")
        for _ in range(4):
            await count(other)
        assert proxy.statements("replica") == before
        assert account.era is known.era
