"""Finds out whether the primary is gone, for sessions that have lost their connections to it.

A connection ends because it was killed, because it was idle for too long, because the network cut
it, or since its server is gone. Only in the last case may the session go on without it
(without-primary): a client that was killed has to find that out. The server says the first two to
nobody else, so it is asked: does it take a login, and is it still the same incarnation?

Thousands of sessions lose the primary at once, and one login answers all of them. It must have been
tried after the connection was lost if it says that the primary is there; that it is gone is true of
all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ServerErrorCode
from proxy.server.connect.opening import open_connection
from proxy.server.errors import NoDescriptorError, ServerRefusedError, ServerUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.live_config import LiveConfig
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.tasks import Start
    from routing.servers.topology import Server, Topology

_log = logging.getLogger(__name__)

_SHUTDOWN: Final = ServerErrorCode.ER_SERVER_SHUTDOWN.code


class _Asker(NamedTuple):
    """A session that has lost its connection.

    Attributes:
        server, epoch: the incarnation of the primary that it was to.
        login: as whom.
        then: is told whether that is gone.
        failed: is called if that raises.
    """

    server: Server
    epoch: int
    login: Login
    then: Callable[[bool], None]
    failed: Callable[[], None]


class PrimaryPresence:
    """Asks for the sessions of one worker."""

    def __init__(
        self,
        topology: Topology,
        live: LiveConfig,
        metrics: Metrics,
        start: Start,
        now: Callable[[], float],
    ) -> None:
        """Connects as the configuration says; `now` is monotonic, s."""
        self._topology = topology
        self._live = live
        self._metrics = metrics
        self._start = start
        self._now = now
        self._askers: list[_Asker] = []
        self._asking = False

    def ask(
        self,
        lost: ServerConnection,
        login: Login,
        then: Callable[[bool], None],
        failed: Callable[[], None],
    ) -> None:
        """Find out whether the server of a connection that has just been lost is gone.

        Args:
            lost: the connection; it was to the primary.
            login: as whom.
            then: is told the answer, not before this method has returned.
            failed: ends the session, if that raises.
        """
        self._askers.append(_Asker(lost.server, lost.epoch, login, then, failed))
        if not self._asking:
            self._asking = True
            self._start(self._look(), "ask whether the primary is gone")

    async def _look(self) -> None:
        try:
            while self._askers:
                askers, self._askers = self._askers, []
                primary = self._topology.primary
                if not self._is_known_to_be_gone(primary) and await self._is_there(
                    primary, askers[0].login
                ):
                    self._tell(askers)
                else:
                    askers += self._askers
                    self._askers = []
                    self._tell(askers, gone=primary)
        finally:
            self._asking = False

    def _is_known_to_be_gone(self, primary: Server) -> bool:
        return primary.is_silent(self._now())

    async def _is_there(self, primary: Server, login: Login) -> bool:
        """Whether the primary takes logins, or at least answers who wants to log in."""
        try:
            live = self._live
            connection = await open_connection(primary, login, live.config, live.materials, "OFF")
        except NoDescriptorError:
            return True  # nothing is known; a session that ends is the safe way
        except ServerRefusedError as error:
            if error.error.code != _SHUTDOWN:
                return True
            cause = str(error)
        except ServerUnreachableError as error:
            cause = str(error)
        except Exception:  # a defect: nothing is known, and those who ask must not wait for ever
            _log.exception("asking whether the primary is gone failed")
            return True
        else:
            connection.channel.close()
            return True
        _log.warning("the primary %s is gone: %s", primary.name, cause)
        primary.set_unreachable(self._now())
        self._metrics.server_connect_failed(primary.name, "unreachable")
        self._metrics.server_up(primary.name, False)
        return False

    def _tell(self, askers: list[_Asker], gone: Server | None = None) -> None:
        """Tell each whether its incarnation is gone; one that fails keeps nobody else waiting."""
        for asker in askers:
            server = asker.server
            is_gone = (
                server is gone
                or server is not self._topology.primary
                or asker.epoch < server.started_epoch
            )
            try:
                asker.then(is_gone)  # which serves the command that was held
            except Exception:
                _log.exception("a session failed that was told whether the primary is gone")
                asker.failed()
