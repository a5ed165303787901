"""Answers what a worker is asked about itself, and asks the other workers the same."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from proxy.shared.administration import server_rows, session_rows
from proxy.shared.administration.merged import Merged, merged
from proxy.shared.administration.question import LENGTH, MOST_TOGETHER, OF_ONE, Answer, Question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from proxy.observe.digests import Digests
    from proxy.server.slots import Slots
    from proxy.shared.administration.drain_server import ServerDrain
    from proxy.shared.administration.question import Row
    from proxy.shared.administration.worker_sockets import WorkerSockets
    from proxy.shared.sessions import Sessions
    from routing.servers.topology import Topology

_log = logging.getLogger(__name__)

NO_RELOAD: Final = "the configuration cannot be read anew here; change the file, and restart"


class ReloadRefusedError(Exception):
    """The configuration was not read anew; the text says why, and nothing has changed."""


class Administration:
    """One worker, as operators see it.

    Attributes:
        drain: takes replicas out of use.
        reload: reads the configuration anew, for all workers, and says what came of that in
            sentences, or raises ReloadRefusedError; None if that cannot be done here.
    """

    def __init__(
        self,
        worker: int,
        topology: Topology,
        sessions: Sessions,
        slots: Slots,
        drain: ServerDrain,
        digests: Digests | None,
    ) -> None:
        """All of one worker; `digests` is None where statements are not counted by digest."""
        self.drain = drain
        self.reload: Callable[[], Awaitable[Sequence[str]]] | None = None
        self._worker = worker
        self._topology = topology
        self._sessions = sessions
        self._slots = slots
        self._digests = digests
        self._sockets: WorkerSockets | None = None
        self._others: tuple[int, ...] = ()

    async def start(self, sockets: WorkerSockets, workers: int) -> None:
        """Answer, and ask, the other workers.

        Raises:
            StateError: no socket can be made.
        """
        self._sockets = sockets
        self._others = tuple(number for number in range(workers) if number != self._worker)
        await sockets.listen(self._worker, self.answer)

    def stop(self) -> None:
        """Answer no more."""
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

    async def ask(self, question: Question) -> Merged:
        """What all workers answer; this one first."""
        question = replace(question, room=MOST_TOGETHER // (1 + len(self._others)))
        own = await self.answer(question)
        own = Answer.parse(own.serialise(question.room)[LENGTH.size :])  # as limited as others
        answers: dict[int, Answer | None] = {self._worker: own}
        of_all = question.subject not in OF_ONE
        if self._sockets is not None and of_all and not own.refusal:
            others = await self._sockets.ask(self._others, question)
            answers.update(others)
        return merged(question, answers)

    async def answer(self, question: Question) -> Answer:
        """Answer for this worker."""
        subject = question.subject
        if subject == "sessions":
            rows, left_out = session_rows.rows(self._sessions, self._worker, question.user)
            return Answer(rows, left_out)
        if subject == "servers":
            return Answer(self._server_rows())
        if subject == "digests":
            if self._digests is None:
                return Answer(refusal="statements are not counted: statement-digests is off")
            return Answer(self._digests.rows)
        if subject in ("drain", "undrain"):
            return self._drain(question, drain=subject == "drain")
        if subject == "kill":
            return self._kill(question.connection_id)
        return await self._reload()

    async def _reload(self) -> Answer:
        if self.reload is None:
            return Answer(refusal=NO_RELOAD)
        try:
            return Answer([[sentence] for sentence in await self.reload()])
        except ReloadRefusedError as error:
            return Answer(refusal=str(error))

    def _server_rows(self) -> list[Row]:
        return server_rows.rows(self._topology, time.monotonic(), self._slots.count_of)

    def _drain(self, question: Question, *, drain: bool) -> Answer:
        refusal = self.drain.refusal(question.server, drain=drain)
        if refusal:
            return Answer(refusal=refusal)
        try:
            note = self.drain.change(question.server, drain=drain)
        except OSError as error:
            return Answer(
                refusal=f"what is drained cannot be written to state-dir: {error.strerror}"
            )
        server = self.drain.find(question.server)
        name = question.server if server is None else server.name
        _log.info("asked to %s server %s", question.subject, name)
        state: str | None = None
        connections = 0
        for row in self._server_rows():
            if row[server_rows.SERVER] == name:
                state = str(row[server_rows.STATE])
                connections = 0 if server is None else self._slots.count_of(server)
        return Answer([[name, state, connections, note or None]])

    def _kill(self, connection_id: int) -> Answer:
        session = self._sessions.known_by(connection_id)
        if session is None:
            return Answer()
        _log.info("session %d of user %r is ended", connection_id, session.state.user)
        session.cut_off()
        return Answer([[connection_id]])

    async def answer_bytes(self, question: bytes) -> bytes:
        """The same in the form of `worker_sockets`, for a thread of this process."""
        parsed = Question.parse(question[LENGTH.size :])
        return (await self.answer(parsed)).serialise(parsed.room)
