"""Which stages of a server's connection follow which, and that its own steps keep to that."""

import asyncio
from itertools import product
from typing import Any, get_args

import pytest

from protocol.constants import Capability
from protocol.response import ErrPacket
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.server.account import Requirement
from proxy.server.connection import ServerConnection
from proxy.server.connection_stage import (
    CLOSED,
    IDLE,
    IN_USE,
    LENT,
    LOGGED_IN,
    READY,
    SANDBOX,
    TABLE,
    Stage,
    next_stage,
)
from proxy.server.exchange import SETUP
from proxy.server.settings import Settings
from routing.servers.topology import Role, Server
from routing.unexpected_event import UnexpectedEventError
from tests.support.identity import IDENTITY
from tests.support.transports import FakeTransport

STAGES: tuple[Stage, ...] = get_args(Stage)


class Session:
    """Owns a connection, of which it wants to hear nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def new() -> ServerConnection:
    """A connection that has logged in."""
    channel = PacketChannel(1 << 20)
    channel.adopt(FakeTransport(), 0, secure=False)
    return ServerConnection(Server("db:3306", Role.PRIMARY), Capability(0), 7, channel)


def ready() -> ServerConnection:
    connection = new()
    connection.become_ready(IDENTITY, Requirement.NOTHING)
    return connection


def in_use() -> ServerConnection:
    connection = ready()
    connection.hand_over(Session())
    return connection


def test_every_stage_has_its_row() -> None:
    assert set(TABLE) == set(STAGES)
    assert {following for row in TABLE.values() for following in row} <= set(STAGES) - {CLOSED}


@pytest.mark.parametrize(("stage", "following"), list(product(STAGES, STAGES)))
def test_a_step_that_the_table_lacks_is_an_error_that_names_both(
    stage: Stage, following: Stage
) -> None:
    if following in TABLE[stage]:
        assert next_stage(stage, following) == following
        return
    with pytest.raises(UnexpectedEventError, match=f"{following} at stage {stage}"):
        next_stage(stage, following)


def test_the_life_of_a_connection() -> None:
    async def story() -> None:
        connection = new()
        assert connection.stage == LOGGED_IN
        connection.become_ready(IDENTITY, Requirement.TLS)
        assert connection.stage == READY
        assert connection.identity is IDENTITY
        assert connection.opening.requirement is Requirement.TLS
        connection.hand_over(Session())
        assert connection.stage == IN_USE
        idle = connection.pass_on(Session())
        assert (connection.stage, idle.stage) == (CLOSED, IDLE)
        idle.lend(IDENTITY, Requirement.NOTHING)
        assert idle.stage == LENT
        assert idle.identity is IDENTITY
        idle.begin_with(SETUP, b"packet")
        passed_on = idle.pass_on_to(PacketChannel(1 << 20))
        assert (idle.stage, passed_on.stage) == (CLOSED, READY)
        assert passed_on.take_preface() == (b"packet",)
        passed_on.hand_over(Session())
        passed_on.detach(LOGGED_IN)
        assert passed_on.stage == CLOSED

    asyncio.run(story())


def test_a_sandbox_is_left_once_the_settings_are_made() -> None:
    async def story() -> None:
        connection = new()
        error = ErrPacket(1820, "HY000", "change it")
        settings = Settings(Role.PRIMARY, "OWN_GTID", "")
        connection.enter_sandbox(settings, error)
        connection.enter_sandbox(settings, error)
        assert connection.stage == SANDBOX
        assert connection.opening.refusal is error
        channel = connection.channel
        with pytest.raises(UnexpectedEventError, match="in_use at stage sandbox"):
            connection.hand_over(Session())
        assert not channel.closed  # and still its own
        connection.become_ready(IDENTITY, Requirement.NOTHING)
        assert connection.stage == READY

    asyncio.run(story())


def test_nothing_goes_over_the_channel_of_a_session() -> None:
    async def story() -> None:
        connection = in_use()
        for question in ("opening", "channel", "identity"):
            with pytest.raises(UnexpectedEventError, match="at stage in_use"):
                getattr(connection, question)
        with pytest.raises(UnexpectedEventError, match="ready at stage in_use"):
            connection.become_ready(IDENTITY, Requirement.NOTHING)
        with pytest.raises(UnexpectedEventError, match="lent at stage in_use"):
            connection.lend(IDENTITY, Requirement.NOTHING)

    asyncio.run(story())


def test_a_lent_connection_that_broke_is_gone() -> None:
    async def story() -> None:
        connection = in_use().pass_on(Session())
        connection.lend(IDENTITY, Requirement.NOTHING)
        connection.connection_lost(None)
        assert connection.stage == CLOSED
        with pytest.raises(ChannelClosedError):
            connection.hand_over(Session())
        with pytest.raises(ChannelClosedError):
            connection.pass_on_to(PacketChannel(1 << 20))
        with pytest.raises(ChannelClosedError):
            _ = connection.channel

    asyncio.run(story())


def test_a_closed_connection_goes_nowhere() -> None:
    async def story() -> None:
        for connection in (new(), ready(), in_use()):
            connection.abort()
            assert connection.stage == CLOSED
            for stage in STAGES:
                with pytest.raises(UnexpectedEventError, match="at stage closed"):
                    connection.enter(stage)

    asyncio.run(story())
