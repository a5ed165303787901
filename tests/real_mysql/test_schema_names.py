"""Schemas whose names are not ASCII, in sessions of every character set, are read on replicas."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest
from pymysql.constants import CLIENT

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

CODECS = {
    "latin1": "cp1252",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "cp1251": "cp1251",
    "gbk": "gbk",
    "sjis": "shift_jis",
}
NAMES = {
    "latin1": "sch\u00e9ma",
    "utf8mb3": "\u4e2d\u6587",
    "utf8mb4": "sch\u00e9ma",
    "cp1251": "\u0441\u0445\u0435\u043c\u0430",
    "gbk": "\u4e2d\u6587",
    "sjis": "\u30c6\u30b9\u30c8",
}


@pytest.fixture(scope="module")
def schemas(cluster: Cluster) -> Iterator[None]:
    """Each schema has a table with its name in it."""
    primary = cluster.primary
    for name in set(NAMES.values()):
        primary.query(f"CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4")
        primary.query(f"CREATE TABLE `{name}`.which (name VARCHAR(20))")
        primary.query(f"INSERT INTO `{name}`.which VALUES (%s)", name)  # noqa: S608 of this file
        primary.query(f"GRANT ALL ON `{name}`.* TO {APP_USER}")
    cluster.wait_caught_up()
    yield
    for name in set(NAMES.values()):
        primary.query(f"DROP DATABASE `{name}`")
        primary.query(f"REVOKE ALL ON `{name}`.* FROM {APP_USER}")


def connect(port: int, character_set: str, database: bytes | None) -> pymysql.Connection:
    return pymysql.connect(
        host="127.0.0.1",
        port=port,
        user=APP_USER,
        password=APP_PASSWORD,
        charset=character_set,
        autocommit=True,
        database=database,  # type: ignore[arg-type]  # as bytes, in the character set
        client_flag=CLIENT.MULTI_STATEMENTS,
    )


@pytest.mark.usefixtures("schemas")
@pytest.mark.parametrize("how", ["login", "USE", "COM_INIT_DB", "SET NAMES before"])
@pytest.mark.parametrize("character_set", CODECS)
def test_a_schema_is_the_same_on_a_replica(how: str, character_set: str, proxy: StartProxy) -> None:
    running = proxy()
    name = NAMES[character_set]
    raw = name.encode(CODECS[character_set])
    by_login = how == "login"
    first = "utf8mb4" if how == "SET NAMES before" else character_set
    connection = connect(running.port, first, raw if by_login else None)
    with connection, connection.cursor() as cursor:
        if how == "SET NAMES before":
            cursor.execute(f"SET NAMES {character_set}")
        if how in ("COM_INIT_DB", "SET NAMES before"):
            connection._execute_command(2, raw)  # type: ignore[attr-defined]
            connection._read_ok_packet()  # type: ignore[attr-defined]
        elif not by_login:
            cursor.execute(b"USE `" + raw + b"`")
        for _ in range(3):
            cursor.execute("SELECT HEX(CONVERT(name USING utf8mb4)) FROM which")
            ((found,),) = cursor.fetchall()
            assert bytes.fromhex(found).decode() == name
        if how == "USE" and not character_set.startswith("utf8"):
            return  # its text is not readable for Tidegate, so what it did is not known
        cursor.execute("SHOW TIDEGATE LAST")
        columns = [column[0] for column in cursor.description]
        ((*row,),) = cursor.fetchall()
        assert dict(zip(columns, row, strict=True))["role"] == "replica"
