"""Makes sessions from seeds: the same seed, the same session."""

import itertools
import random
import re

from protocol.constants import Capability, FieldType
from tests.differential import (
    data_texts,
    groups,
    parameters,
    questions,
    server_defaults,
    session_texts,
)
from tests.differential.collations import COLLATIONS, UNKNOWN
from tests.differential.server_defaults import SERVERS, ServerDefault
from tests.differential.session import Session
from tests.differential.step import (
    Close,
    Execute,
    Fetch,
    LongData,
    Prepare,
    Query,
    ResetStatement,
    Rest,
    Step,
)
from tests.differential.values import VALUES

_OPTIONAL = (
    Capability.CLIENT_DEPRECATE_EOF,
    Capability.CLIENT_SESSION_TRACK,
    Capability.CLIENT_OPTIONAL_RESULTSET_METADATA,
    Capability.CLIENT_QUERY_ATTRIBUTES,
    Capability.CLIENT_FOUND_ROWS,
)
_MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
_PLACE = re.compile(r"<([a-z]+)>")
_NARROW = tuple(collation for collation in (*COLLATIONS, *UNKNOWN) if collation <= 0xFF)
"""What a login can name."""


class Generator:
    """Draws one session."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        # Of the statement that was prepared last in each slot:
        self._parameters: dict[int, int] = {}
        self._explains: dict[int, bool] = {}
        self._ranges: dict[int, bool] = {}
        self._bare: dict[int, bool] = {}
        self._types: dict[int, tuple[int, ...]] = {}
        self._cursors: set[int] = set()

    def session(self, length: int = 30) -> Session:
        """A session of about so many steps."""
        draw = self._random
        capabilities, without = self._capabilities()
        # A session that does a bit of everything soon pins itself to the primary, so each has a
        # few groups that it draws from.
        others = draw.sample(groups.OTHERS, draw.randint(1, 5))
        chosen = [groups.READS, groups.WRITES, *others]
        steps: list[Step] = []
        if any(group is session_texts.WITHOUT_AUTOCOMMIT for _, group in chosen):
            steps += [Query(text) for text in session_texts.BEGINS_WITHOUT_AUTOCOMMIT]
        if capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA and draw.random() < 0.3:
            steps.append(Query("SET resultset_metadata = NONE"))
        while len(steps) < length:
            ((_, group),) = draw.choices(chosen, [weight for weight, _ in chosen])
            steps += self._steps(group)
        return Session(
            capabilities,
            "app" if draw.random() < 0.9 else None,
            self._with_pauses(steps),
            without,
            255 if draw.random() < 0.8 else draw.choice(_NARROW),
            self._defaults(),
            follows=draw.random() < 0.3,
        )

    def _with_pauses(self, steps: list[Step]) -> tuple[Step, ...]:
        """The steps, and pauses between some of them, which matter where connections are shared."""
        draw = self._random
        often = draw.choice((0.1, 0.3, 0.7))
        paused = [(step, Rest()) if draw.random() < often else (step,) for step in steps]
        return tuple(itertools.chain.from_iterable(paused))

    def _capabilities(self) -> tuple[Capability, Capability]:
        """What a client negotiates beyond the usual, and what it leaves out."""
        draw = self._random
        capabilities, without = _MODERN, Capability(0)
        if draw.random() < 0.6:
            capabilities = Capability(0)
            for flag in _OPTIONAL:
                if draw.random() < 0.5:
                    capabilities |= flag
        if draw.random() < 0.1:
            without = Capability.CLIENT_MULTI_STATEMENTS
        return capabilities, without

    def _defaults(self) -> tuple[ServerDefault, ...]:
        """In what the servers differ: in most sessions, nothing."""
        draw = self._random
        if draw.random() < 0.7:
            return ()
        if draw.random() < 0.1:
            variable = draw.choice(sorted(server_defaults.TRACKERS))
            value = draw.choice(server_defaults.TRACKERS[variable])
            return (ServerDefault(draw.choice(SERVERS[1:]), variable, value),)
        values = server_defaults.VALUES
        return tuple(
            ServerDefault(draw.choice(SERVERS), variable, draw.choice(values[variable]))
            for variable in draw.sample(sorted(values), draw.randint(1, 2))
        )

    def _steps(self, group: groups.Group) -> list[Step]:
        draw = self._random
        if group is data_texts.PREPARED:
            return self._prepared()
        if group is questions.QUESTIONS:
            return self._questioned()
        if group is groups.COLLATIONS:
            return [draw.choice(groups.COLLATIONS), *self._some(data_texts.COLLATED, 3)]
        steps = [self._step(draw.choice(group))]
        while draw.random() < 0.25:
            steps.append(self._step(draw.choice(session_texts.DIAGNOSTICS)))
        return steps

    def _step(self, step: Step | str) -> Step:
        return Query(self._filled(step)) if isinstance(step, str) else step

    def _some(self, texts: tuple[str, ...], most: int) -> list[Step]:
        count = self._random.randint(0, most)
        return [self._step(self._random.choice(texts)) for _ in range(count)]

    def _questioned(self) -> list[Step]:
        """Statements, commands behind them, and questions about the statements."""
        draw = self._random
        steps = self._some(questions.COUNTED, 2)
        steps += draw.sample(questions.BETWEEN, draw.choice((0, 0, 1, 1, 2)))
        return steps + self._questions()

    def _questions(self) -> list[Step]:
        draw = self._random
        return [self._step(draw.choice(questions.QUESTIONS)) for _ in range(draw.randint(1, 3))]

    def _filled(self, text: str) -> str:
        return _PLACE.sub(lambda match: self._random.choice(VALUES[match[1]]), text)

    def _prepared(self) -> list[Step]:
        """A statement prepared and executed, or something done with an earlier one."""
        draw = self._random
        slot = draw.randrange(4)
        chance = draw.random()
        if chance < 0.45 or slot not in self._parameters:
            text = self._filled(draw.choice(data_texts.PREPARED))
            self._parameters[slot] = text.count("?")
            self._types[slot] = ()
            self._explains[slot] = text.startswith("EXPLAIN")
            self._ranges[slot] = "id > ?" in text
            self._bare[slot] = text.startswith("SELECT ?")
            self._cursors.discard(slot)
            if draw.random() < 0.25:
                return [Prepare(slot, text), *self._questions()]
            return [Prepare(slot, text), *self._execution(slot)]
        if chance < 0.85:
            return self._execution(slot)
        if chance < 0.90:
            return [ResetStatement(slot)]
        if chance < 0.95:
            return [Close(slot)]
        return [Fetch(slot, draw.choice((0, 1, 2, 100)))]

    def _execution(self, slot: int) -> list[Step]:
        draw = self._random
        count = self._parameters[slot]
        if draw.random() < 0.04:
            count = max(0, count - 1)
        pool = draw.choice((parameters.INTEGERS, parameters.INTEGERS + parameters.OTHERS))
        if self._ranges[slot]:
            pool = (
                parameters.INTEGERS
            )  # others warn once or for each row, as a server happens to plan
        if draw.random() < 0.03:
            pool = parameters.REFUSED
        values = [draw.choice(pool) for _ in range(count)]
        if self._bare[slot]:
            # A result's columns have the types of the first execution on that server.
            types = self._types[slot] = self._types[slot] or tuple(kind for kind, _ in values)
            values = [self._of_type(kind) for kind in types[:count]]
        steps: list[Step] = []
        if values and not self._bare[slot] and draw.random() < 0.1:
            position = draw.randrange(count)
            for _ in range(draw.randint(1, 2)):
                steps.append(LongData(slot, position, draw.choice((b"long", b"", b"x" * 5000))))
            values[position] = (FieldType.MYSQL_TYPE_BLOB, None)
        # 9.7.4 answers wrongly where an earlier execution had a cursor and this one has none: it
        # sends definitions and, where rows or their end are due, an OK packet.
        flags = int(slot in self._cursors or draw.random() < 0.2)
        if self._explains[slot]:
            flags = 0  # a cursor for it crashes 9.7.4
        if flags:
            self._cursors.add(slot)
        steps.append(Execute(slot, tuple(values), flags, typed=draw.random() < 0.9))
        if flags:
            steps += [Fetch(slot, draw.randint(1, 3)) for _ in range(draw.randint(0, 3))]
        return steps

    def _of_type(self, kind: int) -> parameters.Parameter:
        every = parameters.INTEGERS + parameters.OTHERS + parameters.REFUSED
        return self._random.choice([value for value in every if value[0] == kind])
