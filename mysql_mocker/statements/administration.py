"""Statements about the server: KILL, FLUSH, accounts, table maintenance, replication."""

from mysql_mocker.columns.result_columns import made_up
from mysql_mocker.error import MySQLError, interrupted, syntax_error, unsupported
from mysql_mocker.evaluation.binding import evaluate
from mysql_mocker.sql.result import Done, Rows
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.session import Session
from mysql_mocker.statements import definition

_RECREATED = "Table does not support optimize, doing recreate + analyze instead"


async def kill(session: Session, statement: Statement) -> Done:
    """KILL [CONNECTION | QUERY] id.

    Raises:
        MySQLError: 1094 for an unknown id, 1317 for the session's own connection.
    """
    words = statement.words
    position = 2 if words[1] in ("QUERY", "CONNECTION") else 1
    value = await evaluate(session, statement, statement.expressions(position)[0])
    if not isinstance(value, int):
        raise syntax_error(statement.text)
    target = value
    if not session.server.clients.kill(target, query_only=words[1] == "QUERY"):
        raise MySQLError(1094, "HY000", f"Unknown thread id: {target}")
    if target == session.id:
        raise interrupted()
    return Done()


async def binlogged(session: Session, _statement: Statement) -> Done:
    """A statement that changes nothing here but has a GTID: GRANT, CREATE USER and others.

    Raises:
        MySQLError: the session may not write.
    """
    await definition.begin(session)
    definition.end(session)
    return Done()


async def flush(session: Session, statement: Statement) -> Done:
    """FLUSH; on a read-only server it has no GTID.

    Raises:
        MySQLError: the session may not write.
    """
    words = statement.words
    session.transaction.commit()
    if "PRIVILEGES" in words:
        session.server.password_cache.clear()
    if words[1] == "LOGS" or words[1:3] == ["BINARY", "LOGS"]:
        session.server.keeper.rotate(session.server.gtids.executed)
    local = words[1] in ("NO_WRITE_TO_BINLOG", "LOCAL") or "LOGS" in words
    if not local and not session.server.read_only:
        await definition.begin(session)
        definition.end(session)
    return Done()


async def maintain(session: Session, statement: Statement) -> Rows:
    """ANALYZE, OPTIMIZE, CHECK, REPAIR TABLE: rows that report that all is well.

    Raises:
        MySQLError: the session may not write.
    """
    words = statement.words
    verb = words[0].lower()
    position = words.index("TABLE") if "TABLE" in words else words.index("TABLES")
    text = statement.source(position + 1, len(words) - 1).replace("`", "")
    rows = []
    binlog = verb != "check"
    if binlog:
        await definition.begin(session)
    else:
        session.transaction.commit()
        session.transaction.spend_settings()
    for name in text.split(","):
        schema, _, table = name.strip().rpartition(".")
        stored = session.stored(table, schema)
        exists = session.catalogue.kind(stored) is not None
        if exists:
            if verb == "optimize":
                rows.append((stored, verb, "note", _RECREATED))
            rows.append((stored, verb, "status", "OK"))
        else:
            rows.append((stored, verb, "Error", f"Table '{stored}' doesn't exist"))
            rows.append((stored, verb, "status", "Operation failed"))
    if binlog:
        definition.end(session, read=True)
    else:
        definition.tell_of_reading(session)
    names = ("Table", "Op", "Msg_type", "Msg_text")
    return Rows(made_up(names, rows), rows)


async def reset(session: Session, statement: Statement) -> Done:
    """RESET BINARY LOGS AND GTIDS.

    Raises:
        MySQLError: 1235 for other forms of RESET.
    """
    if statement.words[1:] != ["BINARY", "LOGS", "AND", "GTIDS"]:
        raise unsupported(statement.text)
    session.transaction.commit()
    session.server.gtids.reset()
    session.server.binlog.reset()
    session.server.keeper.reset()
    return Done()


async def purge(session: Session, statement: Statement) -> Done:
    """PURGE BINARY LOGS TO 'name'.

    Raises:
        MySQLError: 1373 for an unknown name, 1235 for BEFORE.
    """
    if statement.words[1:4] != ["BINARY", "LOGS", "TO"]:
        raise unsupported(statement.text)
    purged = session.server.logs.purge(statement.tokens[4].text)
    if purged is None:
        raise MySQLError(1373, "HY000", "Target log not found in binlog index")
    session.server.gtids.purged |= purged
    return Done()


async def replica(session: Session, statement: Statement) -> Done:
    """START REPLICA and STOP REPLICA.

    Raises:
        MySQLError: 1200 on a server that is not a replica.
    """
    applier = session.server.applier
    if applier is None:
        raise MySQLError(
            1200,
            "HY000",
            "The server is not configured as replica; fix in config file or with CHANGE "
            "REPLICATION SOURCE TO",
        )
    applier.running = statement.words[0] == "START"
    if not applier.running:
        await session.interruptible(applier.settled())
    return Done()


async def use(session: Session, statement: Statement) -> Done:
    """USE schema.

    Raises:
        MySQLError: 1049.
    """
    session.choose_schema(statement.tokens[1].text)
    return Done()
