"""Prepared statements, executed in the schema where they were prepared and elsewhere."""

from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.session.prepared import PreparedStatement
from routing.session.session import Session
from routing.sql.statement import classify

RULES = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
SELECT = b"SELECT * FROM a JOIN other.b"


def prepared(schema: str) -> PreparedStatement:
    session = Session(RULES, 0)
    session.schema = schema
    return PreparedStatement(1, classify(SELECT), SELECT, session)


def test_names_are_resolved_only_where_another_schema_is_the_default() -> None:
    statement = prepared("app")
    assert statement.statement is not None
    assert statement.executed_in("app") is statement.statement
    assert statement.statement.tables is not None
    assert ("", "a") in statement.statement.tables.names


def test_names_are_those_of_the_schema_where_it_was_prepared() -> None:
    statement = prepared("app")
    executed = statement.executed_in("second")
    assert executed is not None
    assert executed.tables is not None
    assert executed.tables.within("second").references == {("app", "a"), ("other", "b")}
    assert statement.executed_in("second") is executed
    assert statement.executed_in("app") is statement.statement
