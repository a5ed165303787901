"""The verdicts, findings and lapses that the audit reports, in the words of its report."""

from enum import StrEnum
from typing import Self


class Verdict(StrEnum):
    """What became of the promise that a read was given."""

    OK = "ok"
    """The evidence shows that the server had all that the read had to see."""
    VIOLATION = "violation"
    """The proxy let a server answer that was not shown to have all that the read had to see."""
    NOT_JUDGED = "not judged"
    """A promise was given, but the log does not suffice to tell whether it was kept."""
    GIVEN_UP = "given up openly"
    """The wait budget ran out and the policy said `stale`: logged as such, and counted."""
    BY_WORD = "by the proxy's word"
    """The server lacked some of it, but, as the proxy says, nothing that changes the answer."""
    NO_ANSWER = "no answer"
    """No server answered, so nothing was shown to the client."""
    NO_PROMISE = "no promise"
    """The read asked for no guarantee."""


class _Explained(StrEnum):
    """Members that have a sentence for the report.

    Attributes:
        meaning: one sentence for the report.
    """

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """Make a member from its name and its sentence."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member


class Finding(_Explained):
    """Why a read was given its verdict."""

    NOTHING_WRITTEN = "nothing written", "There was nothing that the read could miss."
    PRIMARY = "primary", "The primary answered, which shows what it acknowledged."
    WAITED = "waited", "The server had said right before that it had all that the read had to see."
    KNOWN = "known", "Evidence in the log shows that the server had all that the read had to see."

    INDEPENDENT = (
        "independent",
        "The server lacked transactions that the read had to see. The proxy says that these changed"
        " none of the read's tables: only binary logs can show that (`--binlogs`).",
    )

    KNOWN_TOO_SMALL = (
        "known set too small",
        "The applied set that the proxy relied on does not cover what the read had to see.",
    )
    WAITED_TOO_SMALL = (
        "waited set too small",
        "The set that the proxy waited for does not cover what the read had to see.",
    )
    NO_PROOF = "no proof", "A replica answered without any proof."
    MALFORMED_PROOF = (
        "malformed proof set",
        "The proof is no GTID set; servers read many such texts as an empty set.",
    )

    UNBACKED = (
        "unbacked",
        "The proxy relied on an applied set that nothing in the log shows to be true.",
    )
    UNNAMED_WRITE = (
        "unnamed write",
        "Something may have been committed whose GTID no packet told, and the server may lack it.",
    )
    MISSING_RECORDS = (
        "missing records",
        "The log lacks records, perhaps of writes that the read had to see.",
    )
    MALFORMED_WRITE = "malformed own set", "What was written is logged as no GTID set."
    PRIMARY_CHANGED = (
        "primary changed",
        "The primary that answered did not acknowledge the writes; nothing shows that it has them.",
    )
    UNKNOWN_CLUSTER = (
        "unknown cluster",
        "The log holds several clusters, and the proxy names no primary: its cluster is unknown.",
    )
    CLOCKS = (
        "clocks",
        "The clocks of proxies differ, so it is unknown which writes came before the read.",
    )
    NO_BOUND = "no bound", "The level is BOUNDED_STALENESS, but no bound is logged."
    UNKNOWN_LEVEL = "unknown level", "This audit does not know the level or the scope."

    STALE_POLICY = "stale policy", "The wait ran out, and the timeout policy is `stale`."
    NO_SERVER = "no server", "The proxy itself answered, with an error."
    BEST_EFFORT = "best effort", "The level is BEST_EFFORT."


class Lapse(_Explained):
    """How the procedure was not kept, even if the read happened to see all that it had to."""

    NOT_ASKED = (
        "not asked",
        "Nothing shows that the primary was asked in time for what the read's proof must cover.",
    )
    LEFT = (
        "left unasked",
        "The read went to another server than the one that had answered before, and the primary "
        "was not asked in between for a set that bounds what was seen there.",
    )
    CONTRADICTED = (
        "contradicted",
        "The server showed later that it lacks what it had claimed to have.",
    )
    HOLES = (
        "holes",
        "The answer showed newer transactions without older ones, a state in which the primary "
        "never was.",
    )


class Dependence(StrEnum):
    """Why a read depended on a transaction that its server lacked, as binary logs show."""

    CHANGED = "it changed this table"
    OPAQUE = "it may have changed anything"
    DISORDERED = "the server applied it out of order"
