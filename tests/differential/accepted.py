"""Differences that are known and accepted, each with its reason: the fewer, the better.

What differs here can make later steps differ, so the rest of such a session is not judged.
"""

import re
from dataclasses import dataclass

from tests.differential.comparison import Difference
from tests.differential.session import Session


@dataclass(frozen=True)
class Accepted:
    """One of them.

    Attributes:
        pattern: is found in the repr of the step, a line feed, and the difference as it is printed.
        reason: why it is accepted.
        before: is found in the repr of the steps before, each on a line, the last one first.
        differing: is found in the repr of what servers differ in.
    """

    pattern: str
    reason: str
    before: str = ""
    differing: str = ""


ACCEPTED = (
    Accepted(
        r"\n  direct .*session_state=b'(.*)\\x05\\t\\x08________'.*"
        r"\n  through .*session_state=(b'\1'|None)",
        "that a transaction ended behind an error, which was told already or ran on a replica",
    ),
    Accepted(
        r"\n  direct .*session_state=(?:None|b'(.*)'), "
        r".*\n  through .*session_state=b'(?:\1)?\\x05\\t\\x08________'",
        "the end of a transaction that began on a replica, and by START TRANSACTION on the primary",
    ),
    Accepted(
        r"^Query\(sql=.SET session_track_(gtids|system_variables)",
        "a client sees what it asks to be tracked from the next statement on",
    ),
    Accepted(
        r"^Query\(sql=.S(ELECT @@|HOW VARIABLES LIKE ')session_track",
        "behind an error the proxy asks for GTIDs, and what it tracks for itself shows",
    ),
    Accepted(
        r"\n  direct .*status=16(?:386|418), (.*), session_state=b'.*statement_id.*', "
        r"header=(?:254|0)\)\n  through .*status=(?:2|34), \1, session_state=None",
        "the tracker of statement_id behind a read on a replica, whose count it is, and behind what"
        " the proxy answers itself",
    ),
    Accepted(
        r"^(OwnStatement|ResetStatement)\(.*\n.*\n  direct .*status=0, .*\n  through .*status=1, ",
        "behind an error with autocommit off, a transaction may be open",
    ),
    Accepted(
        r"^Query\(sql=.*(FOUND_ROWS\(\).*ROW_COUNT\(\)|ROW_COUNT\(\).*FOUND_ROWS\(\)).*"
        r"\n.*\n  direct +\d+: b'[\\x0-9-]{4,40}'\n  through +\d+: b'[\\x0-9-]{4,40}'",
        "FOUND_ROWS() beside the ROW_COUNT() of a write, which no statement could keep",
    ),
    Accepted(
        r"^Query\(sql=.EXECUTE st1\W.*"
        r"\n.*\n  direct +\d+: b'[\\x0-9-]{4,40}'\n  through +\d+: b'[\\x0-9-]{4,40}'",
        "the same question in a statement that was prepared before",
        before=r"PREPARE st1 FROM .*(FOUND_ROWS\(\).*ROW_COUNT\(\)|ROW_COUNT\(\).*FOUND_ROWS\(\))",
    ),
    Accepted(
        r"^OwnStatement\(.*\n.*\n  direct .*session_state=b'\\x02\\x011'.*"
        r"\n  through .*session_state=None",
        "settings of Tidegate's are no state of the server's session",
    ),
    Accepted(
        r"\n  direct .*status=0120\n  through .*status=0100",
        "transaction_read_only by a default of the primary's, in the status of reads on replicas",
    ),
    Accepted(
        r"\n  direct .*status=8(?:193|225),.*\n  through .*status=8(?:195|227),",
        "autocommit switched off inside a READ ONLY transaction, in the status of replicas",
    ),
    Accepted(
        r"\n  direct .*session_state=b'\\x05\\t\\x08T_______'.*\n  through .*session_state=None",
        "START TRANSACTION behind a read that opened a transaction on a replica",
    ),
    Accepted(
        r"^Send\(command=<Command\.COM_(PING|INIT_DB|SET_OPTION).*\n.*\n"
        r"  direct .*warnings=([2-9]|0[2-9]00)[ ,].*\n  through .*warnings=(1|0100)[ ,]",
        "the warnings before an error on a replica that COM_PING and its like tell of",
    ),
    Accepted(
        r"^Query\(sql=.SET session_track_transaction_info = 'CHARACTERISTICS'.*\n.*\n"
        r"  direct .*session_state=b'\\x04\\x01\\x00'.*\n"
        r"  through .*session_state=b'\\x04\\x1c\\x1bSET TRANSACTION READ WRITE;'",
        "the primary began by a statement what a read on a replica has opened, with autocommit off",
    ),
    Accepted(
        r"^Query\(sql=.*FOUND_ROWS\(\).*\n.*\n  direct +\d+: b'\\x01\d'\n"
        r"  through +\d+: b'\\x011'$",
        "FOUND_ROWS() of a write behind a read that failed: Tidegate has asked something meanwhile",
        before=r"^(Rest\(\)\n)*(Query|Prepare|Execute)\(.*\n(.*\n)*?.*(UPDATE|SELECT|CALL|DELETE)",
    ),
    Accepted(
        r"^Query\(sql=.*FOUND_ROWS\(\).*\n.*\n  direct +\d+: b'\\x01\d'\n"
        r"  through +\d+: b'\\x011'$",
        "FOUND_ROWS() of before a COM_CHANGE_USER, where only the server knew it",
        before=r"^((?!Query\(sql=['\"](SELECT|TABLE|WITH|VALUES|DO|UPDATE)).*\n)*ChangeUser\(",
    ),
    Accepted(
        r"\n  direct .*character_set=255, (.*)\n  through .*character_set=46, \1",
        "the collation of result columns where the primary's global collation_connection differs",
    ),
    Accepted(
        r"^Execute\(.*\n.*\n  direct .*( name='[^']*\?[^']*'), .*\n  through .*\1, ",
        "the types that a statement's parameters had when another server executed it",
    ),
    Accepted(
        r"\n  direct .*status=(?:1|33|16385), (.*)\n  through .*status=(?:0|32|16384), \1",
        "with autocommit off, a read that fails on a replica has opened no transaction",
        before=r"^((?!Query|Execute).*\n|Query\(sql=.(SHOW|GET|SAVEPOINT).*\n)*"
        r"(Query|Execute)\(.*(SELECT|WITH|TABLE|Execute)",
    ),
    Accepted(
        r"\n  direct .*status=2, .*\n  through .*status=8195, ",
        "a GRANT that fails in a READ ONLY transaction ends it, and its error does not say so",
    ),
    Accepted(
        r"\n  direct +\d+: ERROR (1047 \(\w+\)): .*\n  through +\d+: ERROR \1: Unknown command",
        "what the proxy refuses itself, it says in English, whatever lc_messages is",
    ),
    Accepted(
        r"^Query\(sql='SELECT \* FROM made_inside'.*\n.*\n  direct .*\n  through .*: ERROR 1146 ",
        "a procedure's CREATE TEMPORARY TABLE … SELECT, of which no tracker tells",
        before=r"CALL makes_temporary\(\)",
    ),
    Accepted(
        r"\n  direct +\d+: b'(?:\\x00)*(?:\\x04|\\xfb)'\n  through +\d+: b'(?:\\x00)*\\xfc`\\xea",
        "values that are too long for the primary alone, which gives NULL",
        differing="servers='primary', variable='max_allowed_packet'",
    ),
    Accepted(
        r"\n  direct +\d+: b'(?:\\x00)*\\xfc`\\xea.*\n  through +\d+: b'(?:\\x00)*(?:\\x04|\\xfb)'",
        "values that are too long for a replica alone, which gives NULL",
        differing="servers='replicas', variable='max_allowed_packet'",
    ),
)


def accepted(session: Session, found: Difference) -> bool:
    """Whether a difference is one of them."""
    if not found.step:
        return False
    *before, step = map(repr, session.steps[: found.step])
    text = f"{step}\n{found}"
    earlier = "\n".join(reversed(before))
    return any(
        re.search(entry.pattern, text)
        and re.search(entry.before, earlier)
        and re.search(entry.differing, repr(session.defaults))
        for entry in ACCEPTED
    )
