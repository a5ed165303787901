"""The stages of a read (`routing.request.read`), and which event may come at which."""

from typing import Final, Literal

Stage = Literal["done", "asking", "joined", "opening", "sent", "passing", "delayed"]

DONE: Final = "done"
"""There is no read, or it was answered."""
ASKING: Final = "asking"
"""The primary is asked what it has."""
JOINED: Final = "joined"
"""It waits for the end of another read's WAIT."""
OPENING: Final = "opening"
"""A connection to a replica is being opened."""
SENT: Final = "sent"
"""A server was chosen, and is sent the statement."""
PASSING: Final = "passing"
"""Some of the answer has gone to the client."""
DELAYED: Final = "delayed"
"""It waits until the primary may be given it."""

Event = Literal[
    "begin",
    "bind",
    "take_up",
    "ask",
    "probe_answered",
    "released",
    "out_of_time",
    "absent",
    "unfit",
    "opened",
    "wait_answered",
    "confirm_answered",
    "audit_answered",
    "settled",
    "silent",
    "refused",
    "lost",
    "turn_came",
    "first_byte",
    "ended",
    "left",
]
"""What a read is told of; each is a method of `Read`."""

_CHOSEN: Final = (SENT, ASKING, JOINED, DONE)
"""Where a choice can lead; DONE, if it is refused."""
_LEFT: Final = (SENT, DELAYED, DONE)
"""Where leaving a replica can lead."""

TABLE: Final[dict[tuple[Stage, Event], tuple[Stage, ...]]] = {
    (DONE, "begin"): _CHOSEN,
    (DONE, "bind"): (SENT,),
    (DONE, "take_up"): (SENT,),
    (DONE, "ask"): (ASKING,),
    (ASKING, "probe_answered"): _CHOSEN,
    (JOINED, "released"): _CHOSEN,
    (JOINED, "out_of_time"): _LEFT,
    (SENT, "absent"): (OPENING, SENT, DONE),
    (SENT, "unfit"): (SENT,),
    (OPENING, "opened"): _CHOSEN,
    (SENT, "wait_answered"): _LEFT,
    (SENT, "confirm_answered"): (SENT,),
    (SENT, "audit_answered"): (SENT,),
    (SENT, "settled"): (SENT, DONE),
    (SENT, "silent"): (SENT,),
    (SENT, "refused"): (SENT,),
    (SENT, "lost"): (SENT, DONE),
    (PASSING, "lost"): (DONE,),
    (DELAYED, "turn_came"): (SENT,),
    (SENT, "first_byte"): (PASSING,),
    (SENT, "ended"): (DONE,),
    (PASSING, "ended"): (DONE,),
    **{(stage, "left"): (DONE,) for stage in (ASKING, JOINED, OPENING, SENT, PASSING, DELAYED)},
    # Late events. The machine is told of these for commands that are not statements, too.
    (DONE, "probe_answered"): (DONE,),
    (DONE, "released"): (DONE,),
    (DONE, "out_of_time"): (DONE,),
    (DONE, "turn_came"): (DONE,),
    (DONE, "first_byte"): (DONE,),
    (DONE, "ended"): (DONE,),
    (DONE, "left"): (DONE,),
}
"""Which event may come at which stage, and where it leads. Any other is a defect."""
