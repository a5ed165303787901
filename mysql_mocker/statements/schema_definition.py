"""CREATE DATABASE and DROP DATABASE."""

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.names import quoted, stored_name
from mysql_mocker.sql.result import Done
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.session import Session
from mysql_mocker.statements.definition import begin, end, run


async def create(session: Session, statement: Statement) -> Done:
    """CREATE DATABASE [IF NOT EXISTS] name.

    Raises:
        MySQLError: 1007.
    """
    words = statement.words
    name = statement.tokens[5 if words[2] == "IF" else 2].text
    await begin(session)
    if session.catalogue.has_schema(name):
        if words[2] != "IF":
            raise MySQLError(1007, "HY000", f"Can't create database '{name}'; database exists")
        session.warn("Note", 1007, f"Can't create database '{name}'; database exists")
    else:
        run(session, 'INSERT INTO ".schemata" VALUES (:name)', {"name": name})
    end(session)
    return Done(1)


async def drop(session: Session, statement: Statement) -> Done:
    """DROP DATABASE [IF EXISTS] name, with all that is in it.

    Raises:
        MySQLError: 1008.
    """
    words = statement.words
    name = statement.tokens[4 if words[2] == "IF" else 2].text
    await begin(session)
    tables = session.catalogue.tables(name)
    if session.catalogue.has_schema(name):
        for table, kind in tables:
            word = "VIEW" if kind == "VIEW" else "TABLE"
            run(session, f"DROP {word} {quoted(stored_name(name, table))}")
            session.server.engine.counters.pop(stored_name(name, table), None)
        run(session, 'DELETE FROM ".routines" WHERE schema = :name', {"name": name})
        run(session, 'DELETE FROM ".schemata" WHERE name = :name', {"name": name})
        if session.schema == name:
            session.schema = None
            session.trackers.schema_set()
    else:
        message = f"Can't drop database '{name}'; database doesn't exist"
        if words[2] != "IF":
            raise MySQLError(1008, "HY000", message)
        session.warn("Note", 1008, message)
    end(session)
    return Done(len(tables), dropped_schema=True)
