"""REQUIRE clauses, as servers of 9.7.4 write them."""

import pytest

from proxy.server.account import Requirement, is_limited, read_requirement

REST = b" PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK PASSWORD REQUIRE CURRENT DEFAULT"
HASH = (
    b"IDENTIFIED WITH 'caching_sha2_password' AS '$A$00A$%J\t\x01\x10q\\'\x1ep\\\"WS\x7fU\\'\x1f'"
)
RAW = b"IDENTIFIED WITH 'caching_sha2_password' AS '$A$00A$s\x13f4q'\x05{D7\"G\\7<'"


@pytest.mark.parametrize("start", [b"CREATE USER `u`@`%` " + HASH, b'CREATE USER "u"@"%" ' + RAW])
@pytest.mark.parametrize(
    ("clause", "requirement"),
    [
        (b" REQUIRE NONE", Requirement.NOTHING),
        (b" REQUIRE SSL", Requirement.TLS),
        (b" REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 90", Requirement.TLS),
        (b" REQUIRE X509", Requirement.CERTIFICATE),
        (b" REQUIRE SUBJECT '/CN=x' ISSUER '/CN=y'", Requirement.CERTIFICATE),
        (b" REQUIRE CIPHER 'TLS_AES_256_GCM_SHA384'", Requirement.CERTIFICATE),
        (b"", Requirement.TLS),
    ],
)
def test_clauses(start: bytes, clause: bytes, requirement: Requirement) -> None:
    assert read_requirement(start + clause + REST) is requirement


def test_nothing_that_an_account_says_of_itself_weakens_its_clause() -> None:
    name = b"CREATE USER `x REQUIRE NONE y`@`%` " + HASH + b" REQUIRE SSL" + REST
    comment = b""" ATTRIBUTE '{"comment": "a REQUIRE NONE b"}'"""
    assert read_requirement(name + comment) is Requirement.TLS
    assert read_requirement(b"") is Requirement.TLS


@pytest.mark.parametrize(
    ("clause", "limited"),
    [
        (b" REQUIRE NONE", False),
        (b" REQUIRE NONE WITH MAX_QUERIES_PER_HOUR 5", True),
        (b" REQUIRE SSL WITH MAX_UPDATES_PER_HOUR 5 MAX_CONNECTIONS_PER_HOUR 1", True),
        (b" REQUIRE NONE WITH MAX_USER_CONNECTIONS 2", True),
    ],
)
def test_limits(clause: bytes, limited: bool) -> None:
    assert is_limited(b"CREATE USER `u`@`%` " + HASH + clause + REST) is limited
