"""Statements' records as they are asked for by their fields, not by a command and its outcome."""

from typing import Any

from protocol.constants import Command as Code
from protocol.gtid import GtidSet
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.record import RecordStream, Route
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Role, Server

RULES = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)

_SERVER = Server("db:3306", Role.REPLICA)  # its name is in the route


def add_statement(
    stream: RecordStream,
    session_fragment: str,
    statement_fragment: str,
    route: Route,
    **fields: Any,
) -> None:
    """Add a record; what is not given is of a statement of which there is nothing to tell."""
    command = Command(Code.COM_QUERY, RULES, arrived_us=fields.pop("arrived_us", 1))
    outcome = CommandOutcome(command)
    proof_set = fields.pop("proof_set", None)
    if proof_set is not None:
        gtids = GtidSet.parse(proof_set)
        outcome.decision = Decision(
            _SERVER, Reason.READ, Proof.KNOWN, gtids, independence=fields.pop("independence", None)
        )
    required = fields.pop("required", "")
    outcome.required = None if required is None else GtidSet.parse(required)
    outcome.own = GtidSet.parse(fields.pop("own_gtids", ""))
    outcome.observed = GtidSet.parse(fields.pop("observed", ""))
    outcome.received = fields.pop("bytes", 0)
    outcome.dispatched_us = fields.pop("dispatched_us", 2)
    outcome.ended_us = fields.pop("ended_us", 3)
    outcome.ordinal = fields.pop("ordinal", 1)
    error_code, rows = fields.pop("error_code", 0), fields.pop("rows", None)
    for name in ("wait_us", "fallbacks", "own_known", "snapshot_us"):
        if name in fields:
            setattr(outcome, name, fields.pop(name))
    outcome.proof = fields.pop("allowed", None)
    if fields:
        raise TypeError(f"no such fields: {', '.join(fields)}")
    stream.statement(
        session_fragment, statement_fragment, route, command, outcome, error_code, rows
    )
