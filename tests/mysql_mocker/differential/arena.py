"""Where a session is run twice: on a real MySQL, and on the mocker."""

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor

from protocol.constants import Capability
from tests.differential.comparison import Difference
from tests.differential.player import Answer, Player
from tests.differential.session import Session
from tests.mysql_mocker.differential.normalising import Peer, named_columns, normalised
from tests.mysql_mocker.differential.schema import (
    DATA,
    DEFINITIONS,
    EMPTYING,
    PASSWORD,
    USER,
)
from tests.real_mysql.raw_client import BASE, RawClient

_ADMIN = Capability.CLIENT_DEPRECATE_EOF
_SHOWING = re.compile(r"\b(SHOW|DESC|DESCRIBE|ANALYZE|OPTIMIZE|CHECK|REPAIR)\b")
_DEFINING = re.compile(r"\b(CREATE|DROP|ALTER|RENAME)\b")


class Arena:
    """A real server and the mocker's, with the same account and schemas."""

    def __init__(self, real: Peer, mocker: Peer) -> None:
        self.real = real
        self.mocker = mocker
        self._defined = False

    def judge(self, session: Session) -> Difference | None:
        """Run a session on both; what differs first."""
        capabilities = Capability(BASE & ~session.without | session.capabilities)
        with ThreadPoolExecutor(2) as pool:
            runs = pool.map(lambda peer: self._run(session, peer), (self.real, self.mocker))
            expected, got = runs
        self._defined = not any(_DEFINING.search(repr(step)) for step in session.steps)
        for number, (expected_answer, got_answer) in enumerate(zip(expected, got, strict=True)):
            step = repr(session.steps[number - 1]) if number else ""
            if _SHOWING.search(step):
                expected_answer, got_answer = map(named_columns, (expected_answer, got_answer))
            if expected_answer != got_answer:
                return Difference(number, expected_answer, got_answer, capabilities)
        return None

    def _run(self, session: Session, peer: Peer) -> list[Answer]:
        self._prepare(peer)
        capabilities = Capability(BASE & ~session.without | session.capabilities)
        answers = session.play(peer.address, peer.address, USER, PASSWORD)
        return [normalised(answer, capabilities, peer) for answer in answers]

    def _prepare(self, peer: Peer) -> None:
        """Everything as new.

        Raises:
            AssertionError: a statement failed.
        """
        client = RawClient(peer.address, USER, PASSWORD, _ADMIN)
        player = Player(client)
        with contextlib.closing(player):
            for sql in (*(EMPTYING if self._defined else DEFINITIONS), *DATA):
                answer = player.query(sql.encode())
                assert answer[-1].payload[0] != 0xFF, (peer, sql, answer)
