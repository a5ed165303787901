"""Carries a visitor's Tidegate token in a cookie: the part to copy into your own application.

A token names what its bearer has written. If it is presented to a Tidegate proxy, even to another
one than made it, reads see all of that. So the response to a request that has written hands out a
token, and every later request brings it back, whichever server it reaches.
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
"""The error by which Tidegate refuses a token that is altered, expired, or signed with another
key."""

_READING = ("GET", "HEAD", "OPTIONS")


def present(connection: Connection[Cursor]) -> None:
    """Let this request's reads see what the visitor wrote before; call it before the first read."""
    token = request.cookies.get(COOKIE)
    if token is None:
        return  # a new visitor, who has written nothing
    with connection.cursor() as cursor:
        try:
            cursor.execute("SET tidegate_token = %s", (token,))
        except pymysql.MySQLError as error:
            if error.args[0] != _WRONG_VALUE:
                raise
            # It is unknown what the visitor wrote: for this request, show everything there is.
            cursor.execute("SET tidegate_consistency = 'STRONG'")
            g.token_lost = True


def hand_out(connection: Connection[Cursor], response: Response) -> None:
    """Give the visitor the token for the next requests; call it after the last statement."""
    if request.method in _READING and "token_lost" not in g:
        # This token would hold nothing new, but it might arrive later than the token of a request
        # that wrote meanwhile, and replace it. (At MONOTONIC_READS, what is shown counts as well:
        # there, always hand out the token.)
        return
    try:
        with connection.cursor() as cursor:
            if "token_lost" in g:
                # At this level, a token names all that was shown, not only what was written.
                cursor.execute("SET tidegate_consistency = 'MONOTONIC_READS'")
            cursor.execute("SELECT @@tidegate_token")
            ((token,),) = cursor.fetchall()
    except pymysql.MySQLError:
        token = "none"  # noqa: S105 - no valid token, so the next request reads at STRONG
    response.set_cookie(
        COOKIE, token, httponly=True, samesite="Lax", secure=request.is_secure, path="/"
    )
