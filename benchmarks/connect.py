"""What a connection costs: ``python -m benchmarks.connect``.

Each client connects, selects a row and quits; then comes the next one. Contenders run at the same
time and are visited in turns: in each round, each gets the same number of clients. A figure is the
median of the rounds; the ratio to a direct connection is the median of the ratios in each round.
"""

import argparse
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from benchmarks.cluster import PASSWORD, SCHEMA, USER, Cluster
from benchmarks.contender import Contender, Direct, HAProxy, Tidegate, running
from benchmarks.processor import cpu_seconds
from benchmarks.program import MissingProgramError, mysql_programs
from benchmarks.router import Router
from protocol.authentication import ClientAuthentication
from protocol.command import com_query
from protocol.constants import Capability, Command
from protocol.handshake import HandshakeResponse41, HandshakeV10
from protocol.packet import frame

_TABLE: Final = f"CREATE TABLE {SCHEMA}.connect (id INT PRIMARY KEY) SELECT 1 AS id"
_CAPABILITIES: Final = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_CONNECT_WITH_DB
    | Capability.CLIENT_DEPRECATE_EOF
)
_TLS: Final = ("--server-tls", "preferred")
_NONE_KEPT: Final = ("--kept-connections", "0")
"""A connection to each server is opened for each client."""
_JUDGED: Final = ("--login-age", "0")
"""The servers are asked about each login, over connections that are kept."""
PACKETS: Final = 4
"""Packets of a result with one column and one row: count, definition, row, end."""


@dataclass(slots=True)
class Figures:
    """The figures of one contender, one for each round, for one client, µs.

    Attributes:
        login: until the OK; the median of the round's clients.
        read: from there until the row; likewise.
        cpu: the proxy's processor time for the whole visit; the mean of the round's clients.
    """

    login: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class Client:
    """A client that does only what the protocol requires, so that its own time counts little."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def read(self) -> bytes:
        """The next packet's payload, which must not be an error."""
        header = self._file.read(4)
        payload = self._file.read(int.from_bytes(header[:3], "little"))
        if not payload or payload[0] == 0xFF:
            raise RuntimeError(f"the server answered {payload!r}")
        return payload

    def send(self, payload: bytes, number: int) -> None:
        """Send a packet with this sequence number."""
        self._socket.sendall(frame(payload, number))

    def log_in(self) -> None:
        """Log in as the benchmark's user."""
        greeting = HandshakeV10.parse(self.read())
        authentication = ClientAuthentication(
            PASSWORD.encode(), greeting.auth_plugin, greeting.nonce, secure=False
        )
        response = HandshakeResponse41(
            capabilities=_CAPABILITIES,
            max_packet_size=1 << 24,
            character_set=255,
            username=USER,
            auth_response=authentication.initial_response(),
            database=SCHEMA,
            auth_plugin=authentication.plugin,
            attributes={},
            zstd_level=0,
        )
        self.send(response.serialise(), 1)
        number = 2
        while (payload := self.read())[0] != 0x00:
            reply = authentication.receive(payload)
            number += 1
            if reply is not None:
                self.send(reply, number)
                number += 1

    def run(self, sql: str, packets: int) -> list[bytes]:
        """Run a statement and read the `packets` packets of its answer."""
        self.send(com_query(sql.encode(), query_attributes=False), 0)
        return [self.read() for _ in range(packets)]

    def run_both(self, first: str, second: str, packets: int) -> tuple[list[bytes], list[bytes]]:
        """Send two statements at once and read their answers, of `packets` packets each."""
        statements = (com_query(sql.encode(), query_attributes=False) for sql in (first, second))
        self._socket.sendall(b"".join(frame(statement, 0) for statement in statements))
        answers = [[self.read() for _ in range(packets)] for _ in range(2)]
        return answers[0], answers[1]

    def quit(self) -> None:
        """Send COM_QUIT."""
        self.send(bytes([Command.COM_QUIT]), 0)


def visit(port: int) -> tuple[float, float]:
    """Connect, select a row and quit; returns the seconds to the login's OK, and on to the row."""
    began = time.perf_counter()
    with closing(Client(port)) as client:
        client.log_in()
        entered = time.perf_counter()
        client.run("SELECT id FROM connect WHERE id = 1", PACKETS)
        answered = time.perf_counter()
        client.quit()
    return entered - began, answered - entered


def measure(contender: Contender, clients: int, figures: Figures) -> None:
    """Run one round and add its figures."""
    before = _busy(contender)
    visits = [visit(contender.port) for _ in range(clients)]
    figures.cpu.append((_busy(contender) - before) / clients * 1e6)
    figures.login.append(statistics.median(login for login, _ in visits) * 1e6)
    figures.read.append(statistics.median(read for _, read in visits) * 1e6)


def _busy(contender: Contender) -> float:
    return 0.0 if contender.pid is None else cpu_seconds(contender.pid)


def report(figures: dict[str, Figures]) -> str:
    """A line for each contender; the others are compared with the first one."""
    first = _walls(next(iter(figures.values())))
    lines = [f"{'':24}{'login µs':>10}{'read µs':>10}{'CPU µs':>10}{'direct = 1':>12}"]
    for name, measured in figures.items():
        ratio = statistics.median(a / b for a, b in zip(_walls(measured), first, strict=True))
        lines.append(
            f"{name:24}{statistics.median(measured.login):10.0f}{statistics.median(measured.read):10.0f}"
            f"{statistics.median(measured.cpu):10.0f}{ratio:12.1f}"
        )
    return "\n".join(lines)


def _walls(figures: Figures) -> list[float]:
    return [login + read for login, read in zip(figures.login, figures.read, strict=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connect", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (default 7)")
    parser.add_argument(
        "--clients", type=int, default=100, metavar="N", help="clients of a round (default 100)"
    )
    options = parser.parse_args(arguments)
    try:
        with Cluster(mysql_programs(router=True)) as cluster:
            cluster.primary.query(_TABLE)
            cluster.settle()
            contenders = [
                Direct(cluster),
                HAProxy(cluster),
                Router(cluster),
                Tidegate(cluster),
                Tidegate(cluster, "judged", _JUDGED),
                Tidegate(cluster, "new", _NONE_KEPT),
                Tidegate(cluster, "tls", _TLS),
                Tidegate(cluster, "judged-tls", _TLS + _JUDGED),
                Tidegate(cluster, "new-tls", _TLS + _NONE_KEPT),
            ]
            with running(contenders) as ready:
                figures = {contender.name: Figures() for contender in ready}
                for contender in ready:
                    measure(contender, 5, Figures())  # fills pools and caches
                for _ in range(options.rounds):
                    for contender in ready:
                        measure(contender, options.clients, figures[contender.name])
            print(report(figures))
    except MissingProgramError as error:
        print(f"connect: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
