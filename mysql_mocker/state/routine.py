"""A stored procedure or function, as it is stored."""

from dataclasses import dataclass

from mysql_mocker.state.session import Session


@dataclass(frozen=True, slots=True)
class Routine:
    """A stored routine.

    Attributes:
        kind: ``PROCEDURE`` or ``FUNCTION``.
        body: its statements, between BEGIN and END.
    """

    kind: str
    schema: str
    name: str
    body: str


def find(session: Session, kind: str, name: str, schema: str = "") -> Routine | None:
    """A routine of the current schema, or of `schema`."""
    database = schema or session.schema or ""
    body = session.storage.value(
        'SELECT body FROM ".routines" WHERE kind = ? AND schema = ? AND name = ?',
        (kind, database, name.lower()),
    )
    return None if body is None else Routine(kind, database, name, str(body))
