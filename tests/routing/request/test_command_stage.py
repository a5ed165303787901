"""The course of a command of each kind: what happens to it, and how far it has come then.

A line `>> sent -> forwarded` is an event and the stage that it leads to. Events of the machine of
reads, which may lead to several, are played as that machine tells of them.
"""

import ast
from inspect import cleandoc
from pathlib import Path
from typing import get_args

import pytest

from routing.request.command_progress import CommandProgress
from routing.request.stage import (
    BEGUN,
    DONE,
    FORWARDED,
    PASSING,
    SENT,
    TABLE,
    WAITING,
    Event,
    Stage,
)
from routing.unexpected_event import UnexpectedEventError

ROOT = Path(__file__).resolve().parents[3]
STAGES: tuple[Stage, ...] = get_args(Stage)
EVENTS: tuple[Event, ...] = get_args(Event)
OF_ANY_COMMAND = ("command", "forward", "sent", "first_byte", "ended", "left")


def play(text: str) -> CommandProgress:
    """Play a transcript; fails where an event cannot come, or leads elsewhere."""
    progress = CommandProgress()
    for line in cleandoc(text).splitlines():
        event, stage = line.removeprefix(">> ").split(" -> ")
        happens(progress, event, stage)
        assert progress.stage == stage, line
    return progress


def happens(progress: CommandProgress, event: str, stage: str) -> None:
    """Let an event come that leads to this stage."""
    if event in OF_ANY_COMMAND:
        getattr(progress, f"on_{event}")()
    else:
        progress.expect(event)  # type: ignore[arg-type]
        progress.enter(stage)  # type: ignore[arg-type]


# Each kind of command


def test_a_plain_statement_on_the_fast_path() -> None:
    play("""
        >> forward -> forwarded
        >> ended -> done
        >> forward -> forwarded
        >> ended -> done
    """)


def test_a_plain_statement_whose_answer_is_not_as_most_are() -> None:
    """The machine takes it up, as if it had begun there."""
    play("""
        >> forward -> forwarded
        >> take_up -> sent
        >> refused -> sent
        >> sent -> sent
        >> first_byte -> passing
        >> ended -> done
    """)


def test_a_long_answer_on_the_fast_path() -> None:
    play("""
        >> forward -> forwarded
        >> take_up -> sent
        >> first_byte -> passing
        >> ended -> done
    """)


def test_a_write() -> None:
    play("""
        >> command -> begun
        >> begin -> sent
        >> sent -> sent
        >> first_byte -> passing
        >> ended -> done
    """)


def test_a_statement_whose_answer_is_there_in_one_piece() -> None:
    """It has ended before its client is written to."""
    play("""
        >> command -> begun
        >> begin -> sent
        >> sent -> sent
        >> ended -> done
    """)


def test_a_read_that_asks_the_primary_first() -> None:
    play("""
        >> command -> begun
        >> begin -> asking
        >> probe_answered -> sent
        >> absent -> opening
        >> opened -> sent
        >> sent -> sent
        >> wait_answered -> sent
        >> first_byte -> passing
        >> ended -> done
    """)


def test_a_read_that_joins_another_ones_wait() -> None:
    play("""
        >> command -> begun
        >> begin -> joined
        >> released -> sent
        >> sent -> sent
        >> ended -> done
    """)


def test_a_read_that_leaves_a_late_replica() -> None:
    play("""
        >> command -> begun
        >> begin -> sent
        >> sent -> sent
        >> wait_answered -> delayed
        >> turn_came -> sent
        >> sent -> sent
        >> first_byte -> passing
        >> ended -> done
    """)


def test_a_read_that_is_refused() -> None:
    play("""
        >> command -> begun
        >> begin -> answering
        >> ended -> done
    """)


def test_a_read_that_loses_its_replica() -> None:
    play("""
        >> command -> begun
        >> begin -> sent
        >> sent -> sent
        >> lost -> sent
        >> sent -> sent
        >> first_byte -> passing
        >> lost -> answering
        >> ended -> done
    """)


def test_a_statement_that_waits_for_what_the_primary_commits() -> None:
    """It is given to the primary twice: with the question in front, and by itself."""
    play("""
        >> command -> begun
        >> begin -> sent
        >> sent -> sent
        >> settled -> sent
        >> sent -> sent
        >> ended -> done
    """)


def test_a_command_that_is_no_statement() -> None:
    """COM_STATISTICS, COM_INIT_DB, a long command: to the primary as they come."""
    play("""
        >> command -> begun
        >> sent -> forwarded
        >> first_byte -> passing
        >> ended -> done
    """)


def test_a_command_for_which_a_connection_is_borrowed() -> None:
    """Written once it is there."""
    play("""
        >> command -> begun
        >> sent -> forwarded
        >> sent -> forwarded
        >> ended -> done
    """)


def test_a_command_to_the_server_that_has_its_cursor() -> None:
    play("""
        >> command -> begun
        >> bind -> sent
        >> sent -> sent
        >> first_byte -> passing
        >> lost -> answering
        >> ended -> done
    """)


def test_a_statement_to_the_proxy() -> None:
    play("""
        >> command -> begun
        >> ended -> done
    """)


def test_a_statement_to_the_proxy_for_which_the_primary_is_asked() -> None:
    play("""
        >> command -> begun
        >> ask -> asking
        >> probe_answered -> answering
        >> ended -> done
    """)


def test_a_change_of_user() -> None:
    """Several packets go to and fro; no command is sent to any server meanwhile."""
    play("""
        >> command -> begun
        >> ended -> done
    """)


def test_a_kill() -> None:
    """It comes again when its target is found, which may be the proxy's business or a server's."""
    play("""
        >> command -> begun
        >> command -> begun
        >> sent -> forwarded
        >> ended -> done
    """)


# It ends early


@pytest.mark.parametrize("stage", ["done", "begun", "asking", "joined", "opening"])
def test_nothing_is_owed_where_no_server_had_it(stage: Stage) -> None:
    progress = at(stage)
    progress.on_left()
    assert progress.stage == DONE


@pytest.mark.parametrize(
    "stage", sorted({*STAGES} - {"done", "begun", "asking", "joined", "opening"})
)
def test_a_server_that_had_it_may_still_owe_the_answer(stage: Stage) -> None:
    progress = at(stage)
    progress.on_left()
    progress.on_left()
    assert progress.stage == "left"
    progress.on_ended()
    assert progress.stage == DONE


# What others ask


@pytest.mark.parametrize("stage", STAGES)
def test_what_others_ask(stage: Stage) -> None:
    progress = at(stage)
    assert progress.is_waiting is (stage in WAITING)
    assert progress.is_held is (stage in (SENT, FORWARDED))
    assert repr(progress) == f"<CommandProgress: {stage}>"


# The table


def at(stage: Stage) -> CommandProgress:
    """Make a command that has come so far."""
    progress = CommandProgress()
    progress.stage = stage
    return progress


def test_the_table_has_all_stages_and_events() -> None:
    assert {stage for stage, _ in TABLE} == {*STAGES}
    assert {event for _, event in TABLE} == {*EVENTS}
    assert {stage for following in TABLE.values() for stage in following} == {*STAGES}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("stage", STAGES)
def test_each_event_leads_where_the_table_says(stage: Stage, event: Event) -> None:
    following = TABLE.get((stage, event))
    if following is None:
        progress = at(stage)
        with pytest.raises(UnexpectedEventError, match=f"^{event} at stage {stage}:"):
            happens(progress, event, BEGUN)
        assert progress.stage == stage
        return
    for target in STAGES:
        progress = at(stage)
        if target in following:
            happens(progress, event, target)
            assert progress.stage == target
        elif event not in OF_ANY_COMMAND:
            with pytest.raises(AssertionError, match="no event leads"):
                happens(progress, event, target)


def test_an_event_of_any_command_leads_to_one_stage() -> None:
    for (stage, event), following in TABLE.items():
        if event in OF_ANY_COMMAND:
            assert len(following) == 1, (stage, event)


@pytest.mark.parametrize(
    ("attribute", "owner"),
    [("stage", "routing/request/command_progress.py"), ("active", "proxy/client/servers.py")],
)
def test_one_file_writes_it(attribute: str, owner: str) -> None:
    """The stage of a command, and which connection answers it."""
    sources = [
        path
        for name in ("proxy/client", "routing/request")
        for path in ROOT.glob(f"{name}/**/*.py")
    ]
    writers = {
        source.relative_to(ROOT).as_posix()
        for source in sources
        for node in ast.walk(ast.parse(source.read_bytes()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr == attribute
    }
    assert writers == {owner}


def test_each_stage_can_be_reached_and_left() -> None:
    reached: set[Stage] = {DONE}
    while True:
        further = {
            target
            for (stage, _), targets in TABLE.items()
            if stage in reached
            for target in targets
        }
        if further <= reached:
            break
        reached |= further
    assert reached == {*STAGES}
    assert all((stage, "left") in TABLE for stage in STAGES)
    assert (PASSING, "sent") not in TABLE  # no other server can answer what has been seen
