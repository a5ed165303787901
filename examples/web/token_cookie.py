"""Carries a visitor's Tidegate token in a cookie: what you would copy into your own application.

A token names what its bearer has written. Whoever shows it to a Tidegate proxy, be it another one
than made it, has reads that see all that. So the response to whoever has written hands a token out,
and every later request, wherever it lands, brings it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql
from flask import g, request

if TYPE_CHECKING:
    from flask import Response
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

COOKIE = "tidegate_token"

_WRONG_VALUE = 1231
"""The error by which Tidegate refuses a token: altered, expired, or signed with another key."""

_READING = ("GET", "HEAD", "OPTIONS")


def present(connection: Connection[Cursor]) -> None:
    """Let this request's reads see what the visitor wrote before; call it before the first one."""
    token = request.cookies.get(COOKIE)
    if token is None:
        return  # somebody new, who has written nothing
    with connection.cursor() as cursor:
        try:
            cursor.execute("SET tidegate_token = %s", (token,))
        except pymysql.MySQLError as error:
            if error.args[0] != _WRONG_VALUE:
                raise
            # What the visitor wrote is not known any more: this once, show whatever there is.
            cursor.execute("SET tidegate_consistency = 'STRONG'")
            g.token_lost = True


def hand_out(connection: Connection[Cursor], response: Response) -> None:
    """Give the visitor the token for the next requests; call it behind the last statement."""
    if request.method in _READING and "token_lost" not in g:
        # Nothing is new in it, and it may come later than that of a request which wrote meanwhile.
        # (At MONOTONIC_READS what is shown counts as well: hand it out always.)
        return
    try:
        with connection.cursor() as cursor:
            if "token_lost" in g:
                # At this level a token names not only what was written, but all that was shown.
                cursor.execute("SET tidegate_consistency = 'MONOTONIC_READS'")
            cursor.execute("SELECT @@tidegate_token")
            ((token,),) = cursor.fetchall()
    except pymysql.MySQLError:
        token = "none"  # noqa: S105 - is no token, so that the next request reads at STRONG
    response.set_cookie(
        COOKIE, token, httponly=True, samesite="Lax", secure=request.is_secure, path="/"
    )
