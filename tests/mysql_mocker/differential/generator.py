"""Makes sessions from seeds, of what the mocker speaks: the same seed, the same session."""

import random
import re
import struct

from protocol.constants import Capability, Command, FieldType
from protocol.response_stream import FIELDS, STRING
from tests.differential.session import Session
from tests.differential.step import (
    ChangeUser,
    Close,
    Execute,
    Fetch,
    LongData,
    Prepare,
    Query,
    ResetStatement,
    Send,
    Step,
)
from tests.mysql_mocker.differential import spoken
from tests.mysql_mocker.differential.schema import PASSWORD, USER

_OPTIONAL = (
    Capability.CLIENT_DEPRECATE_EOF,
    Capability.CLIENT_SESSION_TRACK,
    Capability.CLIENT_OPTIONAL_RESULTSET_METADATA,
    Capability.CLIENT_QUERY_ATTRIBUTES,
    Capability.CLIENT_FOUND_ROWS,
)
_MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
_PLACE = re.compile(r"<([a-z0-9]+)>")

COMMANDS: tuple[Step, ...] = (
    Send(Command.COM_PING),
    Send(Command.COM_INIT_DB, b"app"),
    Send(Command.COM_INIT_DB, b"side"),
    Send(Command.COM_INIT_DB, b"nowhere"),
    Send(Command.COM_STATISTICS, b"", STRING, is_compared=False),
    Send(Command.COM_SET_OPTION, b"\x00\x00"),
    Send(Command.COM_SET_OPTION, b"\x01\x00"),
    Send(Command.COM_SET_OPTION, b"\x07\x00"),
    Send(Command.COM_FIELD_LIST, b"items\x00", FIELDS),
    Send(Command.COM_FIELD_LIST, b"missing\x00", FIELDS),
    Send(Command.COM_RESET_CONNECTION),
    Send(Command.COM_RESET_CONNECTION),
    Send(Command.COM_DEBUG),
    Send(Command.COM_SLEEP),
    Send(Command.COM_CONNECT),
    Send(Command.COM_TIME),
    Send(0x77),
    ChangeUser(USER, PASSWORD, "app"),
    ChangeUser(USER, PASSWORD, ""),
    ChangeUser(USER, "wrong", "app"),
    ChangeUser(USER, PASSWORD, "nowhere"),
    Query("SELECT 1", (("trace", "abc"),)),
    Query("INSERT INTO parts (label) VALUES ('q')", (("trace", "x" * 300),)),
)

READS, WRITES = (20, spoken.SELECTS), (16, spoken.WRITES)
OTHERS: tuple[tuple[int, tuple[str, ...] | tuple[Step, ...]], ...] = (
    (6, spoken.DEFINITIONS),
    (5, spoken.TEMPORARY),
    (5, spoken.SHOWS),
    (6, spoken.ERRORS),
    (8, spoken.DIAGNOSTICS),
    (10, spoken.SETTINGS),
    (6, spoken.TRACKING),
    (12, spoken.TRANSACTIONS),
    (6, spoken.CALLS),
    (6, spoken.TEXT_PREPARED),
    (4, spoken.USES),
    (6, COMMANDS),
    (12, spoken.PREPARED),
    (12, spoken.PREPARED),
)
"""What some sessions do, and with what weight then."""

PARAMETERS: tuple[tuple[int, bytes | None], ...] = (
    (FieldType.MYSQL_TYPE_LONGLONG, struct.pack("<q", 1)),
    (FieldType.MYSQL_TYPE_LONGLONG, struct.pack("<q", 3)),
    (FieldType.MYSQL_TYPE_LONG, struct.pack("<i", 2)),
    (FieldType.MYSQL_TYPE_TINY, b"\x04"),
    (FieldType.MYSQL_TYPE_LONGLONG, None),
)
TEXT_PARAMETERS: tuple[tuple[int, bytes | None], ...] = (
    (FieldType.MYSQL_TYPE_VAR_STRING, b"one"),
    (FieldType.MYSQL_TYPE_STRING, b"new"),
    (FieldType.MYSQL_TYPE_VAR_STRING, "ä".encode()),
)


class Generator:
    """Draws one session."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._parameters: dict[int, str] = {}
        self._types: dict[int, list[int]] = {}

    def session(self, length: int = 20) -> Session:
        """A session of about so many steps."""
        draw = self._random
        capabilities, without = _MODERN, Capability(0)
        if draw.random() < 0.5:
            capabilities = Capability(0)
            for flag in _OPTIONAL:
                if draw.random() < 0.5:
                    capabilities |= flag
        if draw.random() < 0.1:
            without = Capability.CLIENT_MULTI_STATEMENTS
        chosen = [READS, WRITES, *draw.sample(OTHERS, draw.randint(1, 5))]
        steps: list[Step] = []
        while len(steps) < length:
            ((_, group),) = draw.choices(chosen, [weight for weight, _ in chosen])
            steps += self._steps(group)
        database = "app" if draw.random() < 0.95 else None
        return Session(capabilities, database, tuple(steps), without)

    def _steps(self, group: tuple[str, ...] | tuple[Step, ...]) -> list[Step]:
        draw = self._random
        if group is spoken.PREPARED:
            return self._prepared()
        step = draw.choice(group)
        steps: list[Step] = [Query(self._filled(step)) if isinstance(step, str) else step]
        while draw.random() < 0.15:
            steps.append(Query(self._filled(draw.choice(spoken.DIAGNOSTICS))))
        return steps

    def _filled(self, text: str) -> str:
        return _PLACE.sub(lambda match: self._random.choice(spoken.VALUES[match[1]]), text)

    def _prepared(self) -> list[Step]:
        """A statement prepared and executed, or something done with an earlier one."""
        draw = self._random
        slot = draw.randrange(3)
        chance = draw.random()
        if chance < 0.5 or slot not in self._parameters:
            text = self._filled(draw.choice(spoken.PREPARED))
            self._parameters[slot] = text
            self._types.pop(slot, None)
            return [Prepare(slot, text), self._execution(slot)]
        if chance < 0.85:
            return [self._execution(slot)]
        if chance < 0.90:
            return [ResetStatement(slot)]
        if chance < 0.95:
            return [Close(slot)]
        if chance < 0.97:
            return [LongData(slot, 0, b"long")]
        return [Fetch(slot, 1)]

    def _execution(self, slot: int) -> Step:
        draw = self._random
        text = self._parameters[slot]
        # In the order of the places, as the texts have them: names first.
        names = "name = ?" in text or "(name, qty)" in text or "SELECT ?" in text
        values = [draw.choice(PARAMETERS) for _ in range(text.count("?"))]
        if values and names:
            values[0] = draw.choice(TEXT_PARAMETERS)
        types = [kind for kind, _ in values]
        # Values of other types than the last ones have to say so.
        typed = draw.random() < 0.95 or self._types.get(slot, types) != types
        self._types[slot] = types
        return Execute(slot, tuple(values), 0, typed=typed)
