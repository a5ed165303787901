"""In which order a server committed writes to registers, as its binary log has them."""

import re

from tests.real_mysql.server import RealServer

_WRITTEN = re.compile(r"UPDATE app\.registers\d+ SET value = (\d+) WHERE")


class CommitOrder:
    """What a server's binary log gets from now on; needs `binlog_rows_query_log_events`."""

    def __init__(self, server: RealServer) -> None:
        self._server = server
        log, position, *_ = server.query("SHOW BINARY LOG STATUS")[0]
        self._log, self._position = str(log), str(position)

    def places(self) -> dict[int, int]:
        """Each value that was written, with its place."""
        logs = [str(row[0]) for row in self._server.query("SHOW BINARY LOGS")]
        places: dict[int, int] = {}
        for log in logs[logs.index(self._log) :]:
            position = self._position if log == self._log else "4"
            for value in self._values(log, position):
                places[value] = len(places)
        return places

    def _values(self, log: str, position: str) -> list[int]:
        events = self._server.query(f"SHOW BINLOG EVENTS IN '{log}' FROM {position}")
        statements = (str(event[5]) for event in events if event[2] == "Rows_query")
        found = (_WRITTEN.search(statement) for statement in statements)
        return [int(match[1]) for match in found if match]
