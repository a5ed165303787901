"""`tidegate top`: a view of servers, the busiest statements, and the sessions that wait.

It asks the metrics address of a running proxy (`/v1/…`) again and again. What comes from there,
such as names that clients chose, is shown without control characters: a terminal would obey them.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import termios
import time
import tty
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from proxy.config import secret_files
from proxy.error_text import error_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.console import RenderableType

Row: TypeAlias = "Mapping[str, object]"

_TIMEOUT_S: Final = 5.0
_MOST_BYTES: Final = 16 << 20
_DIGESTS: Final = 12
_SESSIONS: Final = 12
_QUIT: Final = ("q", "Q", "\x03", "\x04")
_COLOURS: Final = {
    "up": "green",
    "down": "red",
    "diverged": "red",
    "lagging": "yellow",
    "draining": "yellow",
    "drained": "cyan",
    "standby": "cyan",
}


class UnavailableError(Exception):
    """The proxy does not show what was asked for; the text says why."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where a running proxy is asked.

    Attributes:
        url: of its metrics address.
        token: what `admin-token-file` holds there; empty if there is none.
    """

    url: str
    token: bytes = field(default=b"", repr=False)

    def get(self, subject: str) -> tuple[list[Row], list[str]]:
        """The rows and notes of a page.

        Raises:
            UnavailableError: there is no such answer.
        """
        parts = urlsplit(self.url if "//" in self.url else f"//{self.url}", scheme="http")
        secure = parts.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        headers = {"Authorization": f"Bearer {self.token.decode()}"} if self.token else {}
        try:
            connection = connect(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
            connection.request("GET", f"/v1/{subject}", headers=headers)
            response = connection.getresponse()
            body = response.read(_MOST_BYTES + 1)
            connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UnavailableError(f"{self.url}: {error_text(error)}") from error
        if len(body) > _MOST_BYTES:
            raise UnavailableError(f"{self.url}: an answer of more than {_MOST_BYTES} bytes")
        try:
            found = json.loads(body)
            if response.status != http.HTTPStatus.OK:
                raise UnavailableError(f"{self.url}: {found['error']}")
            return list(found[subject]), [str(note) for note in found["notes"]]
        except (ValueError, KeyError, TypeError) as error:
            raise UnavailableError(
                f"{self.url} is not the metrics address of a Tidegate with /v1/{subject}"
                f" (status {response.status})"
            ) from error


@dataclass(frozen=True, slots=True)
class View:
    """What a proxy shows at a moment.

    Attributes:
        at: when, monotonic s.
        servers, digests, sessions: rows of the pages.
        notes: what these lack.
    """

    at: float
    servers: Sequence[Row]
    digests: Sequence[Row]
    sessions: Sequence[Row]
    notes: Sequence[str]

    @classmethod
    def of(cls, proxy: Proxy) -> View:
        """Ask a proxy; what is not shown to this client is a note.

        Raises:
            UnavailableError: not even the servers are shown.
        """
        servers, notes = proxy.get("servers")
        found: dict[str, list[Row]] = {"digests": [], "sessions": []}
        for subject in found:
            try:
                found[subject], more = proxy.get(subject)
            except UnavailableError as error:
                more = [str(error)]
            notes += [note for note in more if note not in notes]
        return cls(time.monotonic(), servers, found["digests"], found["sessions"], notes)


def frame(view: View, before: View | None) -> RenderableType:
    """One picture; rates need the view before."""
    sessions = [row for row in view.sessions if row.get("waiting_for")]
    parts: list[RenderableType] = [
        _table("Servers", view.servers, _SERVERS),
        _table("Busiest statements", _busiest(view, before)[:_DIGESTS], _STATEMENTS),
        _table(
            f"Sessions that wait: {len(sessions)} of {len(view.sessions)}",
            sessions[:_SESSIONS],
            _WAITING,
        ),
    ]
    parts += [Text(_printable(note), style="yellow") for note in view.notes]
    return Group(*parts)


_SERVERS: Final = {
    "server": "server",
    "role": "role",
    "state": "state",
    "member_state": "in the group",
    "lag_ms": "lag ms",
    "connections": "connections",
    "commit_order": "commit order",
    "replication": "replication",
}
_STATEMENTS: Final = {
    "rate": "per s",
    "load": "running",
    "average_ms": "avg ms",
    "latency_max_ms": "max ms",
    "replica_share": "on replicas",
    "waits": "waits",
    "errors": "errors",
    "text": "statement",
}
_WAITING: Final = {
    "id": "id",
    "user": "user",
    "host": "host",
    "server": "server",
    "waiting_for": "waits for",
    "level": "level",
    "digest": "digest",
    "since": "since",
}
_NUMBERS: Final = frozenset(
    {"lag_ms", "connections", "rate", "load", "average_ms", "latency_max_ms", "replica_share"}
    | {"waits", "errors", "id"}
)


def _busiest(view: View, before: View | None) -> list[Row]:
    """The digests with what they had since the view before; what took the longest first."""
    past = {} if before is None else {row.get("digest"): row for row in before.digests}
    seconds = 0.0 if before is None else view.at - before.at
    found: list[dict[str, object]] = []
    for row in view.digests:
        old = past.get(row.get("digest"), {})
        count, took = _number(row, "count"), _number(row, "latency_sum_ms")
        new, spent = count - _number(old, "count"), took - _number(old, "latency_sum_ms")
        if new < 0:  # a worker was started anew
            new, spent = count, took
        share = {} if not seconds else {"rate": new / seconds, "load": spent / seconds / 1000}
        average = took / count if count else 0.0
        text = row.get("text") or row.get("digest")
        found.append({**row, **share, "average_ms": average, "text": text, "spent": spent})
    found.sort(key=lambda row: -_number(row, "spent"))
    return list(found)


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _table(title: str, rows: Sequence[Row], columns: Mapping[str, str]) -> Table:
    table = Table(title=title, title_justify="left", expand=True, box=None, header_style="bold")
    last = list(columns)[-1]
    for name, heading in columns.items():
        right = name in _NUMBERS
        table.add_column(
            heading,
            justify="right" if right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if name == last else None,
        )
    for row in rows:
        table.add_row(*(_cell(name, row.get(name)) for name in columns))
    return table


def _cell(name: str, value: object) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if name == "replica_share" and isinstance(value, int | float):
        return Text(f"{value:.0%}")
    if isinstance(value, float):
        return Text(f"{value:,.2f}")
    if name == "since":
        return Text(str(value)[11:23])
    text = _printable(str(value))
    return Text(text, style=_COLOURS.get(text, "") if name == "state" else "")


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in text)


def run(proxy: Proxy, interval: float, *, once: bool) -> int:
    """Show the view until q is pressed, or only once; return the exit status."""
    if once:
        try:
            view = View.of(proxy)
        except UnavailableError as error:
            print(f"tidegate: {error}", file=sys.stderr)
            return 1
        console = Console()
        if not console.is_terminal:
            console = Console(width=160)
        console.print(frame(view, None))
        return 0
    if not sys.stdin.isatty():
        print("tidegate: top needs a terminal; --once prints one view", file=sys.stderr)
        return 2
    with _keys(), Live(screen=True, auto_refresh=False) as live:
        last: View | None = None
        while True:
            try:
                now = View.of(proxy)
                live.update(frame(now, last), refresh=True)
                last = now
            except UnavailableError as error:
                live.update(Text(_printable(str(error)), style="red"), refresh=True)
            if _quits(interval):
                return 0


@contextmanager
def _keys() -> Iterator[None]:
    """Let the terminal give keys as they are pressed."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _quits(interval: float) -> bool:
    """Wait; return whether a key says that that is enough."""
    until = time.monotonic() + interval
    try:
        while (left := until - time.monotonic()) > 0:
            if select.select([sys.stdin], [], [], left)[0]:
                key = sys.stdin.read(1)
                if not key or key in _QUIT:
                    return True
    except KeyboardInterrupt:
        return True
    return False


def proxy_at(url: str, token_file: Path | None) -> Proxy:
    """The proxy with this metrics address.

    Raises:
        OSError, ValueError: the token's file cannot be read, or holds none.
    """
    return Proxy(url, b"" if token_file is None else secret_files.read_token(token_file))
