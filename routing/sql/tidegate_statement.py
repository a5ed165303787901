"""Statements to Tidegate itself: SET and SELECT of its variables, SHOW TIDEGATE, TIDEGATE DRAIN.

They have the syntax that a server's variables and reports have, and no server ever sees them. What
addresses Tidegate and is wrong is recognised, too, so that its client is told what is wrong; only
what no server would take either (`SET tidegate_scope 'user'`) is left to a server to refuse.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias

from routing.consistency.adjustment import SETTINGS
from routing.sql.lexer import END, LITERAL, QUOTED, VARIABLE, WORD, Tokens
from routing.sql.literal import text_of

Topic: TypeAlias = Literal["LAST", "SESSION", "SESSIONS", "SERVERS", "LAG", "SCOPES", "DIGESTS"]
Action: TypeAlias = Literal["drain", "undrain", "reload"]

VARIABLES: Final = (*SETTINGS, "token")
"""Tidegate's variables, without the `tidegate_` that they begin with."""
TOPICS: Final[dict[bytes, Topic]] = {
    b"LAST": "LAST",
    b"SESSION": "SESSION",
    b"SESSIONS": "SESSIONS",
    b"SERVERS": "SERVERS",
    b"LAG": "LAG",
    b"SCOPES": "SCOPES",
    b"DIGESTS": "DIGESTS",
}
"""What SHOW TIDEGATE can show."""


@dataclass(frozen=True, slots=True)
class OwnAssignment:
    """One assignment to a variable of Tidegate's.

    Attributes:
        name: one of `VARIABLES`.
        value: the text of the value, without quotes and escapes; None for DEFAULT.
    """

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class SetOwn:
    """SET of Tidegate's variables and no others; the values have not been checked yet."""

    assignments: tuple[OwnAssignment, ...]


@dataclass(frozen=True, slots=True)
class SelectOwn:
    """SELECT of Tidegate's variables and nothing else: one row of these columns.

    Attributes:
        columns: for each its name, one of `VARIABLES`, and its label in the result.
    """

    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ShowOwn:
    """SHOW TIDEGATE."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class ShowVariables:
    """SHOW VARIABLES LIKE a pattern that begins with `tidegate`."""

    pattern: str

    @property
    def names(self) -> tuple[str, ...]:
        """The members of `VARIABLES` that the pattern names, in alphabetical order."""
        glob = _LIKE.sub(_as_glob, self.pattern.lower())
        return tuple(name for name in sorted(VARIABLES) if fnmatchcase(f"tidegate_{name}", glob))


@dataclass(frozen=True, slots=True)
class ActOwn:
    """TIDEGATE DRAIN SERVER, UNDRAIN SERVER or RELOAD: it changes what the whole proxy does.

    Attributes:
        action: what is to be done.
        server: the server that it names; empty for a RELOAD.
    """

    action: Action
    server: str = ""


@dataclass(frozen=True, slots=True)
class WrongOwn:
    """A statement or comment that addresses Tidegate and cannot be obeyed.

    Attributes:
        message: says to the client what is wrong, and what would be right.
    """

    message: str


OwnStatement: TypeAlias = SetOwn | SelectOwn | ShowOwn | ShowVariables | ActOwn | WrongOwn

NOT_ALONE: Final = WrongOwn("a statement to Tidegate must be sent alone, not among others")
AMBIGUOUS: Final = WrongOwn("a statement to Tidegate must not depend on the server's version")
_MIXED: Final = WrongOwn("Tidegate's variables cannot be set in one statement with the server's")
_SELECTED: Final = WrongOwn(
    "Tidegate's variables can only be selected by themselves, as in SELECT @@tidegate_token"
)
_UNKNOWN_TOPIC: Final = WrongOwn("Tidegate shows " + ", ".join(TOPICS.values()))
_UNKNOWN_ACTION: Final = WrongOwn(
    "want TIDEGATE DRAIN SERVER 'host:port', TIDEGATE UNDRAIN SERVER 'host:port' or TIDEGATE RELOAD"
)
_ACTIONS: Final[dict[bytes, Action]] = {b"DRAIN": "drain", b"UNDRAIN": "undrain"}
LONGEST_NAME: Final = 300
"""Characters of a server's name: a host's has at most 255."""

# A name of another form is left to a server to refuse.
_NAME: Final = re.compile(
    rb"(@@(?:(\w+)\.)?)?([`\"]?)(tidegate(?:[_.][\w.]*+)?)\3", re.ASCII | re.IGNORECASE
)
_SESSION: Final = (b"", b"SESSION", b"LOCAL")
_SCOPES: Final = (*_SESSION, b"GLOBAL", b"PERSIST", b"PERSIST_ONLY")
_COUNT: Final = re.compile(rb"0*+[1-9][0-9]*+")
_LIKE: Final = re.compile(r"\\([\s\S])|[%_*?\[]")

LONGEST: Final = 40
"""Characters of a wrong name that are repeated; nothing known is near to a longer one."""

_NEAR: Final = 0.5
"""The similarity at which two names are near; `wait` is near to `wait_budget`."""


def mentions_tidegate(sql: bytes) -> bool:
    """Whether a text may address Tidegate at all."""
    return sql.lower().find(b"tidegate") >= 0  # `in` costs many times that


def own_statement(tokens: Tokens, mode_flags: int) -> OwnStatement | None:
    """Recognise a statement to Tidegate.

    Args:
        tokens: one statement, without what follows a semicolon.
        mode_flags: those with which it was split into tokens, a sum of `routing.sql.lexer.MODE_…`.

    Returns:
        None if it is a server's.
    """
    first = tokens.words[0]
    found: OwnStatement | None = None
    if first == b"SET":
        found = _set(tokens, mode_flags)
    elif first == b"SELECT":
        found = _select(tokens, mode_flags)
    elif first == b"SHOW":
        found = _show(tokens, mode_flags)
    elif first == b"TIDEGATE":
        return _act(tokens, mode_flags)
    if found is None:
        for kind, raw in zip(tokens.kinds, tokens.raws, strict=True):
            if kind == VARIABLE and _variable(raw) is not None:
                return _SELECTED
    return found


class _Variable(NamedTuple):
    """A name that begins as Tidegate's do, in lower case, and the scope before it."""

    scope: bytes
    name: str


def _variable(raw: bytes, scope: bytes = b"") -> _Variable | None:
    """Tidegate's variable, if this names one, be it unknown; `@name` is a user's own."""
    match = _NAME.fullmatch(raw)
    if match is None:
        return None
    scope = scope if match[2] is None else match[2].upper()
    return _Variable(scope, match[4].decode().lower()) if scope in _SCOPES else None


def _refused(variable: _Variable) -> WrongOwn | None:
    """What is wrong with a variable, if anything is."""
    prefix, bare = variable.name[:9], variable.name[9:]
    if prefix != "tidegate_" or bare not in VARIABLES:
        problem = f"Tidegate has no variable {variable.name[:LONGEST]}"
        return WrongOwn(f"{problem}; {advice(bare, VARIABLES, 'tidegate_')}")
    if variable.scope not in _SESSION:
        return WrongOwn(f"{variable.name} is a variable of the session, and of nothing wider")
    return None


def advice(name: str, known: Sequence[str], prefix: str = "") -> str:
    """What to say about an unknown name: the nearest known one, or all."""
    near = get_close_matches(name, known, 1, _NEAR) if len(name) <= LONGEST else []
    if near:
        return f"did you mean {prefix}{near[0]}?"
    return "known are " + ", ".join(prefix + name for name in known)


def _set(tokens: Tokens, mode_flags: int) -> SetOwn | WrongOwn | None:
    parts = _parts(tokens)
    targets = [_target(tokens, begin, equals) for begin, equals, _ in parts]
    if not any(targets):
        return None
    assignments: list[OwnAssignment] = []
    for (_, equals, end), variable in zip(parts, targets, strict=True):
        if variable is None:
            return _MIXED
        wrong = _refused(variable)
        if wrong is not None:
            return wrong
        value = None
        if end != equals + 2 or tokens.words[equals + 1] != b"DEFAULT":
            value = text_of(tokens, equals + 1, end, mode_flags)
            if value is None:
                return WrongOwn(f"{variable.name} wants a literal, such as 'text', or DEFAULT")
        assignments.append(OwnAssignment(variable.name[9:], value))
    return SetOwn(tuple(assignments))


def _parts(tokens: Tokens) -> list[tuple[int, int, int]]:
    """Where each assignment begins, has its first `=`, and ends."""
    parts: list[tuple[int, int, int]] = []
    begin = 1
    equals = depth = 0
    for index in range(1, len(tokens) + 1):
        word = tokens.words[index]
        if tokens.kinds[index] == END or (word == b"," and depth <= 0):
            parts.append((begin, equals or index, index))
            begin = index + 1
            equals = 0
        elif word in (b"=", b":="):
            equals = equals or index
        elif word == b"(":
            depth += 1
        elif word == b")":
            depth -= 1
    return parts


def _target(tokens: Tokens, begin: int, equals: int) -> _Variable | None:
    kinds = tokens.kinds
    words = tokens.words
    if begin == equals or LITERAL in kinds[begin:equals]:
        return None
    scope = b""
    if words[begin] in _SCOPES and kinds[begin + 1] in (WORD, QUOTED):
        scope = words[begin]
        begin += 1
    for index in range(begin + 1, equals):
        if words[index] != b"." and not words[index - 1].endswith(b"."):
            return None
    return _variable(b"".join(tokens.raws[begin:equals]), scope)


def _select(tokens: Tokens, mode_flags: int) -> SelectOwn | WrongOwn | None:
    kinds = tokens.kinds
    words = tokens.words
    columns: list[tuple[str, str]] = []
    index = 1
    while True:
        raw = tokens.raws[index]
        variable = _variable(raw) if kinds[index] == VARIABLE else None
        if variable is None:
            return _SELECTED if columns else None
        wrong = _refused(variable)
        if wrong is not None:
            return wrong
        index += 1
        label: str | None = raw.decode()
        named = words[index] == b"AS"
        if named:
            index += 1
        if named or (kinds[index] in (WORD, QUOTED, LITERAL) and words[index] != b"LIMIT"):
            label = _label(tokens, index, mode_flags)
            index += 1
        if label is None:
            return _SELECTED
        columns.append((variable.name[9:], label))
        if words[index] != b",":
            break
        index += 1
    if words[index] == b"LIMIT" and _COUNT.fullmatch(tokens.raws[index + 1]):
        index += 2
    return SelectOwn(tuple(columns)) if kinds[index] == END else _SELECTED


def _label(tokens: Tokens, index: int, mode_flags: int) -> str | None:
    raw = tokens.raws[index]
    if tokens.kinds[index] == WORD:
        return raw.decode()
    number = tokens.kinds[index] == LITERAL and raw[:1] not in (b"'", b'"')
    return None if number else text_of(tokens, index, index + 1, mode_flags)


def _show(tokens: Tokens, mode_flags: int) -> ShowOwn | ShowVariables | WrongOwn | None:
    words = tokens.words
    if words[1] == b"TIDEGATE":
        topic = TOPICS.get(words[2])
        return _UNKNOWN_TOPIC if topic is None or len(tokens) != 3 else ShowOwn(topic)
    index = 2 if words[1] in _SESSION else 1
    if words[index : index + 2] != [b"VARIABLES", b"LIKE"] or len(tokens) != index + 3:
        return None
    pattern = text_of(tokens, index + 2, index + 3, mode_flags)
    if pattern is None or tokens.kinds[index + 2] != LITERAL or len(pattern) > LONGEST:
        return None
    return ShowVariables(pattern) if pattern.lower().startswith("tidegate") else None


def _act(tokens: Tokens, mode_flags: int) -> ActOwn | WrongOwn | None:
    words = tokens.words
    if words[1] in (b"", b":"):
        return None  # nothing, or a label in a procedure's body
    if words[1] == b"RELOAD" and len(tokens) == 2:
        return ActOwn("reload")
    action = _ACTIONS.get(words[1])
    if action is None or words[2] != b"SERVER" or len(tokens) != 4:
        return _UNKNOWN_ACTION
    server = text_of(tokens, 3, 4, mode_flags)
    if not server or len(server) > LONGEST_NAME:
        return _UNKNOWN_ACTION
    return ActOwn(action, server)


def _as_glob(match: re.Match[str]) -> str:
    """A piece of LIKE's language in that of `fnmatch`."""
    character = match[1] or match[0]
    if match[1] is None and character in "%_":
        return "*" if character == "%" else "?"
    return f"[{character}]" if character in "*?[" else character
