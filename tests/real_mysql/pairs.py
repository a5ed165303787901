"""The register workload: write a unique value, read it back on the same connection, count lies."""

from __future__ import annotations  # Connection is generic for the type checker only

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pymysql.connections import Connection
from pymysql.cursors import Cursor

Connect = Callable[[], "Connection[Cursor]"]


@dataclass(frozen=True, slots=True)
class Pairs:
    """What the clients saw: how many values they read back, and how many of them were stale."""

    reads: int
    stale: int


def write_then_read(connect: Connect, pairs: int, connections: int = 8) -> Pairs:
    """Each connection writes its own register over and over, and reads it after every write."""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS app.registers (id INT PRIMARY KEY, value INT)")
        for register in range(connections):
            cursor.execute("REPLACE INTO app.registers VALUES (%s, -1)", (register,))

    def client(register: int) -> int:
        stale = 0
        with connect() as connection, connection.cursor() as cursor:
            for value in range(pairs // connections):
                cursor.execute(
                    "UPDATE app.registers SET value = %s WHERE id = %s", (value, register)
                )
                cursor.execute("SELECT value FROM app.registers WHERE id = %s", (register,))
                stale += cursor.fetchall() != ((value,),)
        return stale

    with ThreadPoolExecutor(connections) as executor:
        stale = sum(executor.map(client, range(connections)))
    return Pairs(reads=pairs // connections * connections, stale=stale)
