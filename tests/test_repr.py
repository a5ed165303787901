"""What a debugger or a log line shows of a session and its parts: one line, and no secrets."""

from protocol.constants import Capability
from protocol.constants import Command as Code
from proxy.server.connection import ServerConnection
from proxy.server.exchange import FORWARD, WAIT
from routing.consistency.decision import Level, LostPolicy, Scope, TimeoutPolicy
from routing.consistency.rules import Rules, StatementRules
from routing.request.command import Command
from routing.request.command_progress import CommandProgress
from routing.request.read import Read
from routing.servers.topology import Topology
from routing.servers.waits import Waits
from routing.session.session import Session
from routing.sql.classifier import Classifier
from routing.sql.session_locks import PinReason
from tests.routing.transaction.situations import fail, open_on_replica

RULES = Rules(Level.READ_OWN_WRITES, Scope.USER, 0.25, TimeoutPolicy.PRIMARY)


def test_a_server_shows_where_it_stands() -> None:
    topology = Topology("p", ["r1"])
    (replica,) = topology.replicas
    assert repr(topology.primary) == "<Server p: primary, epoch 0>"
    replica.timed_out(1000.0, 5.0)
    replica.ordered = False
    assert repr(
        replica
    ) == f"<Server r1: replica, epoch 0, behind until {replica.behind_until:g}, " + (
        "commits out of order>"
    )


def test_a_session_shows_where_it_stands() -> None:
    (replica,) = Topology("p", ["r1"]).replicas
    session = Session(RULES, 0, user="app")
    session.set_schema("shop")
    assert repr(session) == (
        "<Session of 'app' in 'shop': READ_OWN_WRITES in scope user, <Transaction: none>>"
    )
    open_on_replica(session, replica)
    fail(session)
    session.transaction.on_autocommit_set(False)
    session.transaction.modes.set_next("transaction_read_only", "ON")
    assert repr(session.transaction) == (
        "<Transaction: read_only_on_replica, open, uncertain, snapshot of r1, autocommit off,"
        " SET TRANSACTION waits>"
    )
    session.pins.acquire(PinReason.TEMPORARY_TABLE, "`app`.`secret`")
    session.may_have_written()
    session.trackers_pending = session.result_trackers_pending = True
    assert repr(session).endswith(
        ", what it wrote is not known, pinned by temporary table, trackers pending,"
        " trackers of results pending>"
    )


def test_a_command_shows_no_text() -> None:
    sql = b"UPDATE users SET password = 'hunter2'"
    statement = Classifier().classify(sql, 0)
    command = Command(Code.COM_QUERY, StatementRules(RULES), b"\x03" + sql, statement, True)
    assert repr(command) == (
        f"<Command: COM_QUERY, write (data), digest {statement.digest}, may write,"
        " with rules of its own>"
    )
    assert repr(Command(Code.COM_PING, RULES)) == "<Command: COM_PING>"


def test_a_read_shows_where_it_goes() -> None:
    topology = Topology("p", [])
    session = Session(RULES, 0)
    progress = CommandProgress()
    read = Read(session, topology, Waits(), LostPolicy.ERROR, progress)
    assert repr(read) == "<Read: done>"
    progress.on_command()
    assert repr(progress) == "<CommandProgress: begun>"
    read.begin(Classifier().classify(b"INSERT INTO t VALUES (1)", 0), None, 1000.0)
    assert repr(read) == "<Read: sent, p (write, primary)>"


def test_a_connection_shows_what_it_awaits() -> None:
    topology = Topology("p", [])
    connection = ServerConnection(topology.primary, Capability(0), 7)
    assert repr(connection) == "<ServerConnection to p: logged in, id 7, epoch 0>"
    for exchange in (WAIT, FORWARD[0]):
        connection.expect(exchange)
    connection.mirror.needs_reset = connection.lost = True
    assert repr(connection) == (
        "<ServerConnection to p: closed, id 7, epoch 0, awaits wait, awaits forward, to be reset>"
    )
