"""What a client does in one step of a session."""

from dataclasses import dataclass, replace
from typing import Protocol

from protocol.constants import Command, FieldType
from protocol.parameter import QueryAttribute
from protocol.prepared_statement import ComStmtExecute
from protocol.response_stream import FETCHED, PREPARED, RESULTS, SIMPLE
from tests.differential.player import Answer, Player

UNKNOWN_STATEMENT = 9999
"""The id that is sent for a slot in which no statement was prepared."""


class Step(Protocol):
    """A step; its repr is what a failure prints, and can be pasted into a test."""

    def play(self, player: Player) -> Answer:
        """Do it, and return what the server answered."""
        ...


@dataclass(frozen=True)
class Query:
    """COM_QUERY.

    Attributes:
        attributes: names and values of query attributes, for clients that can send them.
    """

    sql: str
    attributes: tuple[tuple[str, str], ...] = ()

    def play(self, player: Player) -> Answer:
        attributes = [
            QueryAttribute(name, FieldType.MYSQL_TYPE_STRING, value.encode())
            for name, value in self.attributes
        ]
        return player.query(self.sql.encode(), attributes)


@dataclass(frozen=True)
class Beside:
    """A statement of another client's, such as holds a lock."""

    sql: str

    def play(self, player: Player) -> Answer:
        return player.beside(self.sql)


@dataclass(frozen=True)
class Prepare:
    """COM_STMT_PREPARE; later steps know the statement by its slot."""

    slot: int
    sql: str

    def play(self, player: Player) -> Answer:
        player.statements.pop(self.slot, None)
        answer = player.command(Command.COM_STMT_PREPARE, self.sql.encode(), PREPARED)
        head = answer[0].payload
        if head[0] == 0x00:
            player.statements[self.slot] = int.from_bytes(head[1:5], "little")
        return answer


@dataclass(frozen=True)
class Execute:
    """COM_STMT_EXECUTE.

    Attributes:
        values: types and values in the binary protocol, None for NULL.
        flags: 0, or 1 for a read-only cursor.
        typed: whether the types are sent.
    """

    slot: int
    values: tuple[tuple[int, bytes | None], ...] = ()
    flags: int = 0
    typed: bool = True

    def play(self, player: Player) -> Answer:
        values = [QueryAttribute("", kind, value) for kind, value in self.values]
        statement = player.statements.get(self.slot, UNKNOWN_STATEMENT)
        execution = ComStmtExecute.of(statement, values, self.flags)
        if not self.typed:
            execution = replace(execution, types=None)
        payload = execution.serialise(player.attributes)
        return player.command(payload[0], payload[1:], RESULTS)


@dataclass(frozen=True)
class LongData:
    """COM_STMT_SEND_LONG_DATA."""

    slot: int
    parameter: int
    data: bytes

    def play(self, player: Player) -> Answer:
        statement = player.statements.get(self.slot, UNKNOWN_STATEMENT)
        target = statement.to_bytes(4, "little") + self.parameter.to_bytes(2, "little")
        player.send(Command.COM_STMT_SEND_LONG_DATA, target + self.data)
        return ()


@dataclass(frozen=True)
class Fetch:
    """COM_STMT_FETCH."""

    slot: int
    rows: int

    def play(self, player: Player) -> Answer:
        statement = player.statements.get(self.slot, UNKNOWN_STATEMENT)
        body = statement.to_bytes(4, "little") + self.rows.to_bytes(4, "little")
        return player.command(Command.COM_STMT_FETCH, body, FETCHED)


@dataclass(frozen=True)
class ResetStatement:
    """COM_STMT_RESET."""

    slot: int

    def play(self, player: Player) -> Answer:
        statement = player.statements.get(self.slot, UNKNOWN_STATEMENT)
        return player.command(Command.COM_STMT_RESET, statement.to_bytes(4, "little"), SIMPLE)


@dataclass(frozen=True)
class Close:
    """COM_STMT_CLOSE; the slot keeps the id."""

    slot: int

    def play(self, player: Player) -> Answer:
        statement = player.statements.get(self.slot, UNKNOWN_STATEMENT)
        player.send(Command.COM_STMT_CLOSE, statement.to_bytes(4, "little"))
        return ()


@dataclass(frozen=True)
class Send:
    """Any other command.

    Attributes:
        command: its number.
        shape: of its answer, as `ResponseStream` knows them.
        is_compared: False where the content is the server's own affair, such as its uptime.
    """

    command: int
    body: bytes = b""
    shape: int = SIMPLE
    is_compared: bool = True

    def play(self, player: Player) -> Answer:
        answer = player.command(self.command, self.body, self.shape)
        return (
            answer
            if self.is_compared
            else tuple(replace(p, payload=b"not compared") for p in answer)
        )


@dataclass(frozen=True)
class ChangeUser:
    """COM_CHANGE_USER.

    Attributes:
        collation: its id.
    """

    user: str
    password: str
    database: str
    collation: int = 255

    def play(self, player: Player) -> Answer:
        return player.change_user(self.user, self.password, self.database, self.collation)


@dataclass(frozen=True)
class MissingTrackers:
    """A step whose answer's content is the server's own affair; its packets are counted."""

    step: Step

    def play(self, player: Player) -> Answer:
        return tuple(replace(packet, payload=b"not compared") for packet in self.step.play(player))


@dataclass(frozen=True)
class OwnStatement:
    """A SET of Tidegate's variables; a server by itself gets a SET of a user variable instead."""

    sql: str

    def play(self, player: Player) -> Answer:
        return player.query(self.sql.encode() if player.through_tidegate else b"SET @tidegate = 1")


@dataclass(frozen=True)
class Rest:
    """The client pauses until Tidegate has given its connections back, or must keep them."""

    def play(self, player: Player) -> Answer:
        player.rest()
        return ()
