"""The stages of a command, and which event may come at which: one table for all commands.

A session serves one command at a time (`routing.request.command_progress`). Where its statement is
the business of the machine of reads (`routing.request.read`), that machine's events are in the same
table, and lead from stage to stage of the same command: so the two can never disagree.
"""

from typing import Final, Literal

Stage = Literal[
    "done",
    "begun",
    "asking",
    "joined",
    "opening",
    "delayed",
    "forwarded",
    "sent",
    "passing",
    "answering",
    "left",
]

DONE: Final = "done"
"""There is no command, or its client has the whole answer."""
BEGUN: Final = "begun"
"""It has come, and no server has been chosen for it; perhaps none is needed."""

ASKING: Final = "asking"
"""The primary is asked what it has."""
JOINED: Final = "joined"
"""It waits for the end of another read's WAIT."""
OPENING: Final = "opening"
"""A connection to a replica is being opened."""
DELAYED: Final = "delayed"
"""It waits until the primary may be given it."""

FORWARDED: Final = "forwarded"
"""It is sent to a server without the machine of reads: by the fast path, or since it is no
statement."""
SENT: Final = "sent"
"""The machine of reads has chosen a server, which is sent it. Another one may still answer."""
PASSING: Final = "passing"
"""Some of the answer has gone to the client: no other server can answer."""

ANSWERING: Final = "answering"
"""No server answers it any more: the proxy does, mostly with an error."""
LEFT: Final = "left"
"""Its client is gone, or its primary, before a server had answered the whole of it."""

Event = Literal[
    # of any command
    "command",
    "forward",
    "sent",
    "first_byte",
    "ended",
    "left",
    # of what the machine of reads serves
    "begin",
    "bind",
    "take_up",
    "ask",
    "probe_answered",
    "primary_silent",
    "released",
    "out_of_time",
    "absent",
    "unfit",
    "opened",
    "wait_answered",
    "confirm_answered",
    "audit_answered",
    "settled",
    "unsettled",
    "no_primary",
    "primary_lost",
    "substituted",
    "silent",
    "refused",
    "lost",
    "turn_came",
]
"""What happens to a command. Those of any command are methods of `CommandProgress`, the others are
methods of `Read`.

command: the client has sent it.
forward: the fast path sends it.
sent: it is written to a server, or to the one that is borrowed for it.
first_byte: some of the answer goes to the client.
ended: the client has the whole answer, or one of the proxy's own.
left: the client is gone, or its primary: nobody waits for the answer.
"""

_CHOSEN: Final = (SENT, ASKING, JOINED, DELAYED, ANSWERING)
"""Where a choice can lead; ANSWERING, if it is refused."""
_ELSEWHERE: Final = (SENT, DELAYED, ANSWERING)
"""Where leaving a replica can lead."""

WAITING: Final = (BEGUN, ASKING, JOINED, OPENING, DELAYED)
"""Stages at which no server has the command."""

TABLE: Final[dict[tuple[Stage, Event], tuple[Stage, ...]]] = {
    (DONE, "command"): (BEGUN,),
    (BEGUN, "command"): (BEGUN,),  # a KILL comes again when its target was found
    (DONE, "forward"): (FORWARDED,),
    (BEGUN, "sent"): (FORWARDED,),
    (FORWARDED, "sent"): (FORWARDED,),
    (SENT, "sent"): (SENT,),
    (FORWARDED, "first_byte"): (PASSING,),
    (SENT, "first_byte"): (PASSING,),
    (PASSING, "first_byte"): (PASSING,),
    **{
        (stage, "ended"): (DONE,)
        for stage in (DONE, BEGUN, FORWARDED, SENT, PASSING, ANSWERING, LEFT)
    },
    **{(stage, "left"): (DONE,) for stage in (DONE, BEGUN, ASKING, JOINED, OPENING)},
    **{(stage, "left"): (LEFT,) for stage in (DELAYED, FORWARDED, SENT, PASSING, ANSWERING, LEFT)},
    # The machine of reads.
    (BEGUN, "begin"): _CHOSEN,
    (BEGUN, "bind"): (SENT,),
    (FORWARDED, "take_up"): (SENT,),
    (BEGUN, "ask"): (ASKING, ANSWERING),
    (ASKING, "probe_answered"): _CHOSEN,
    (ASKING, "primary_silent"): (SENT, ANSWERING),
    (JOINED, "released"): _CHOSEN,
    (JOINED, "out_of_time"): _ELSEWHERE,
    (SENT, "absent"): (OPENING, SENT, ANSWERING),
    (SENT, "unfit"): (SENT,),
    (OPENING, "opened"): _CHOSEN,
    (SENT, "wait_answered"): _ELSEWHERE,
    (SENT, "confirm_answered"): (SENT,),
    (SENT, "audit_answered"): (SENT,),
    (SENT, "settled"): (SENT, ANSWERING),
    (SENT, "unsettled"): (SENT, ANSWERING),
    (SENT, "no_primary"): (SENT, ANSWERING),
    (FORWARDED, "no_primary"): (FORWARDED,),
    (SENT, "primary_lost"): _CHOSEN,
    (SENT, "substituted"): (SENT,),
    (FORWARDED, "substituted"): (SENT,),
    (SENT, "silent"): (SENT,),
    (SENT, "refused"): (SENT,),
    (SENT, "lost"): (SENT, ANSWERING),
    (PASSING, "lost"): (ANSWERING,),
    (DELAYED, "turn_came"): (SENT,),
    # Late: those who waited have left meanwhile.
    (DONE, "probe_answered"): (DONE,),
    (DONE, "primary_silent"): (DONE,),
    (DONE, "released"): (DONE,),
    (DONE, "out_of_time"): (DONE,),
    (LEFT, "turn_came"): (LEFT,),
    (DONE, "turn_came"): (DONE,),
}
"""Which event may come at which stage, and where it leads. Any other is a defect."""
