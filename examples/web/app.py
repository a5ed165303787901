"""The application: a page with messages, and a form that adds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import pymysql
from flask import Flask, current_app, g, redirect, render_template, request, url_for
from pymysql.cursors import Cursor, DictCursor

from examples.web import token_cookie

if TYPE_CHECKING:
    from flask import Response
    from flask.typing import ResponseReturnValue
    from pymysql.connections import Connection

TABLE = "CREATE TABLE IF NOT EXISTS messages (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(200))"
LONGEST = 200


class Database(TypedDict):
    """Where an application server's proxy listens, and who logs in: arguments for PyMySQL."""

    host: str
    port: int
    user: str
    password: str
    database: str


def create_app(name: str, database: Database, *, tokens: bool = True) -> Flask:
    """Make one application server.

    Args:
        name: what its pages call it.
        database: where its proxy listens, and who logs in.
        tokens: whether visitors carry tokens.
    """
    app = Flask(__name__)
    app.config.update(NAME=name, DATABASE=database, TOKENS=tokens, OTHER="")
    app.add_url_rule("/", view_func=messages)
    app.add_url_rule("/messages", view_func=add_message, methods=["POST"])
    app.after_request(hand_out_token)
    app.teardown_appcontext(disconnect)
    return app


def connection() -> Connection[Cursor]:
    """This request's connection. With a pool, call `present` after each checkout instead."""
    if "connection" not in g:
        g.connection = pymysql.connect(**current_app.config["DATABASE"], autocommit=True)
        if current_app.config["TOKENS"]:
            token_cookie.present(g.connection)
    found: Connection[Cursor] = g.connection
    return found


def hand_out_token(response: Response) -> Response:
    """Hand out a token after each request that used the database."""
    if "connection" in g and current_app.config["TOKENS"]:
        token_cookie.hand_out(g.connection, response)
    return response


def disconnect(_: BaseException | None) -> None:
    """Close the connection at the end of each request."""
    if "connection" in g:
        g.pop("connection").close()


def messages() -> str:
    """Show the page."""
    with connection().cursor(DictCursor) as cursor:
        cursor.execute("SELECT id, text FROM messages ORDER BY id DESC LIMIT 50")
        rows = cursor.fetchall()
        cursor.execute("SHOW TIDEGATE LAST")  # how the statement before it was answered
        answer = cursor.fetchone()
    return render_template("messages.html", messages=rows, answer=answer)


def add_message() -> ResponseReturnValue:
    """Add the message of a form that was sent."""
    text = request.form["text"].strip()[:LONGEST]
    if text:
        with connection().cursor() as cursor:
            cursor.execute("INSERT INTO messages (text) VALUES (%s)", (text,))
    return redirect(url_for("messages"), 303)
