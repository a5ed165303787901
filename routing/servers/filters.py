"""What replication filters leave out, although its GTIDs are recorded.

A replica with replication filters records a transaction's GTID, but does not apply what the filters
leave out. So it rightly says that it has the GTID, and a read there misses the write for ever. A
primary with binlog_do_db or binlog_ignore_db does the same to all its replicas.
"""


class Filters:
    """Those of one server, as the monitor last read them.

    Attributes:
        applier: what its applier leaves out; empty if nothing; None if that is not known.
        binary_log: what its binary log leaves out; likewise.
        lacking: as a replica it lacks, or may lack, writes whose GTIDs it has: until it is rebuilt,
            since nothing brings back what was left out.
        allowed: it is read all the same.
    """

    def __init__(self) -> None:
        self.applier: str | None = None
        self.binary_log: str | None = None
        self.lacking = False
        self.allowed = False
        self._remade = False

    @property
    def is_refused(self) -> bool:
        """Whether it is not to be read, since its GTIDs do not tell what it has."""
        return self.lacking and not self.allowed

    def judge(self, primary: "Filters") -> str:
        """See whether a replica of this primary lacks anything; return the cause if that is new."""
        cause = self.applier or ""
        if primary.binary_log:
            cause = f"{cause}; {primary.binary_log}" if cause else primary.binary_log
        news = bool(cause) and not self.lacking
        if cause:
            self.lacking = True
            self._remade = False
        elif self._remade and self.applier is not None:
            self.lacking = self._remade = False
        return cause if news else ""

    def on_rebuilt(self) -> None:
        """It was rebuilt: it lacks nothing any more, unless there still are filters."""
        self._remade = True

    @property
    def text(self) -> str | None:
        """For people; None if nothing is known."""
        if self.applier is None and self.binary_log is None:
            return None
        parts = [text for text in (self.applier, self.binary_log) if text]
        if self.applier is None or self.binary_log is None:
            parts.append("others are not known")
        if self.lacking:
            parts.append("lacks writes whose GTIDs it has, until it is made anew")
        return "; ".join(parts) or "none"
