"""A routing log made by hand: what a proxy would write, and whatever it should not."""

import json
from dataclasses import dataclass
from pathlib import Path

UUID = {
    "primary": "168066ae-e53d-11f1-b607-02fc00000001",
    "r1": "191e1ad2-e53d-11f1-b607-02fc00000002",
    "r2": "1f2e3d4c-e53d-11f1-b607-02fc00000003",
    "other": "5d00aa11-e53d-11f1-b607-02fc00000004",
}
P = UUID["primary"]
DAY_US = 1_795_996_800_000_000  # 2026-11-30 00:00:00 UTC

NOTHING: dict[str, object] = {
    "v": 1,
    "kind": "statement",
    "proxy": "gate",
    "worker": 0,
    "run": "",
    "seq": 0,
    "dropped": 0,
    "ordinal": 0,
    "session": 0,
    "user": "",
    "schema": None,
    "scope": "",
    "scope_key": "",
    "application": None,
    "level": "",
    "bound_us": None,
    "command": "",
    "class": "",
    "digest": None,
    "may_write": False,
    "arrived_us": 0,
    "dispatched_us": 0,
    "ended_us": 0,
    "required": None,
    "server": None,
    "server_uuid": None,
    "incarnation": None,
    "role": None,
    "reason": "",
    "proof": "",
    "proof_set": None,
    "wait_us": 0,
    "fallbacks": "",
    "outcome": "",
    "error_code": 0,
    "own_gtids": "",
    "own_known": False,
    "observed": "",
    "bytes": 0,
    "rows": None,
    "snapshot_us": None,
    "tables": None,
}


def on(server: str, incarnation: int = 1) -> dict[str, object]:
    """The fields that name a server: "primary", "r1", …"""
    return {
        "server": f"{server}:3306",
        "server_uuid": UUID[server],
        "incarnation": incarnation,
        "role": "primary" if server == "primary" else "replica",
    }


@dataclass
class Clock:
    """UTC microseconds."""

    now: int = DAY_US


class Run:
    """One start of one worker; every record takes a millisecond unless told otherwise."""

    def __init__(
        self,
        name: str = "a1",
        worker: int = 0,
        proxy: str = "gate",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.proxy = proxy
        self.clock = Clock() if clock is None else clock
        self.records: list[dict[str, object]] = []
        self.seq = 0
        self._head = {"proxy": proxy, "worker": worker, "run": name}
        self._ordinals: dict[int, int] = {}

    def _add(self, *fields: dict[str, object]) -> dict[str, object]:
        self.seq += 1
        begun = self.clock.now
        self.clock.now += 1000
        times = {"arrived_us": begun, "dispatched_us": begun + 20, "ended_us": begun + 900}
        record = NOTHING | self._head | {"seq": self.seq} | times
        for some in fields:
            record |= some
        self.records.append(record)
        return record

    def statement(self, session: int, **fields: object) -> dict[str, object]:
        self._ordinals[session] = self._ordinals.get(session, 0) + 1
        return self._add(
            {
                "ordinal": self._ordinals[session],
                "session": session,
                "user": "app",
                "schema": "shop",
                "scope": "connection",
                "scope_key": f"{self.name}/{session}",
                "level": "READ_OWN_WRITES",
                "command": "COM_QUERY",
                "digest": f"{self.seq:016x}",
                "outcome": "ok",
                "own_known": True,
                "bytes": 100,
            },
            fields,
        )

    def write(self, session: int, own: str, **fields: object) -> dict[str, object]:
        return self.statement(
            session,
            **{
                "class": "write",
                "may_write": True,
                "reason": "write",
                "proof": "primary",
                "own_gtids": own,
                **on("primary"),
                **fields,
            },
        )

    def unnamed(self, session: int, **fields: object) -> dict[str, object]:
        return self.write(session, "", own_known=False, outcome="error", error_code=1062, **fields)

    def read(
        self,
        session: int,
        server: str,
        proof: str,
        proof_set: str | None = None,
        /,
        **fields: object,
    ) -> dict[str, object]:
        return self.statement(
            session,
            **{
                "class": "read",
                "reason": "read",
                "proof": proof,
                "proof_set": proof_set,
                **on(server),
                **fields,
            },
        )

    def known(
        self, session: int, server: str, claim: str, /, **fields: object
    ) -> dict[str, object]:
        return self.read(session, server, "known", claim, **fields)

    def waited(
        self, session: int, server: str, wait: str, /, **fields: object
    ) -> dict[str, object]:
        return self.read(session, server, "waited", wait, **{"wait_us": 300, **fields})

    def probe(self, server: str, executed: str, /, **fields: object) -> dict[str, object]:
        proof = {"kind": "proof", "proof": "probed", "proof_set": executed}
        return self._add(proof, on(server), fields)

    def gap(self, *sessions: int) -> dict[str, object]:
        """Drop one statement of each of these sessions."""
        for session in sessions:
            self._ordinals[session] = self._ordinals.get(session, 0) + 1
        dropped = len(sessions)
        self.seq += dropped
        return self._add({"kind": "gap", "dropped": dropped})

    def places(self, session: int, user: str, application: str | None) -> list[tuple[str, str]]:
        """The groups that a statement belongs to, as kind and key, its connection first."""
        places = [("connection", f"{self.name}/{session}"), ("user", f"{self.proxy}/{user}")]
        if application:
            places.append(("application", f"{self.proxy}/{application}"))
        return [*places, ("proxy", self.proxy)]

    def number_by_end(self) -> None:
        """Number the records anew, in the order in which they ended."""
        self.records.sort(key=lambda record: int(str(record["ended_us"])))
        for number, record in enumerate(self.records, 1):
            record["seq"] = number

    def lose(self, record: dict[str, object]) -> None:
        """Take a record back after it was numbered."""
        self.records.remove(record)


def move(run: Run, word: str) -> None:
    """Give a run servers of its own."""
    for record in run.records:
        for name, value in record.items():
            if isinstance(value, str):
                record[name] = value.replace("-e53d-", f"-{word}-")


def save(log: Path, *runs: Run, day: str = "2026-11-30", suffix: str = "") -> list[Path]:
    """Write one segment per run."""
    folder = log / f"date={day}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for run in runs:
        path = folder / f"gate-0-{run.name}.jsonl{suffix}"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in run.records))
        paths.append(path)
    return paths
