"""When a silent server is asked, and when it counts as dead."""

from routing.servers.liveness_timer import QUIET_S, LivenessTimer

PATIENCE = 5.0


def quiet() -> LivenessTimer:
    """A server that has said something at 100 s, and nothing since."""
    silence = LivenessTimer(PATIENCE)
    silence.look(7, 90)
    silence.look(8, 100)
    return silence


def test_it_is_asked_when_it_has_kept_a_read_waiting_and_said_nothing_to_anybody() -> None:
    silence = quiet()
    assert not silence.is_in_question(100, 100 + QUIET_S / 2)
    assert silence.is_in_question(100, 100 + QUIET_S)
    # Not if the read came later, or if others have heard from the server since.
    assert not silence.is_in_question(110, 110 + QUIET_S / 2)
    silence.look(9, 100 + QUIET_S)
    assert not silence.is_in_question(100, 100 + QUIET_S)


def test_it_is_dead_when_it_has_not_answered_in_time() -> None:
    silence = quiet()
    assert not silence.is_dead(1000)
    silence.ask(110)
    silence.look(8, 114)
    assert not silence.is_dead(110 + PATIENCE - 0.1)
    assert silence.is_dead(110 + PATIENCE)


def test_it_is_dead_at_once_where_nobody_would_answer() -> None:
    silence = quiet()
    silence.ask(110)
    silence.refused = True
    assert silence.is_dead(110)


def test_whatever_it_says_is_an_answer() -> None:
    silence = quiet()
    silence.ask(110)
    silence.refused = True
    silence.look(9, 120)
    assert not silence.is_dead(120)
    assert not silence.is_dead(1000)


def test_one_that_answered_is_not_asked_all_the_time() -> None:
    silence = quiet()
    silence.ask(110)
    silence.look(9, 110.1)
    assert not silence.is_in_question(100, 110 + PATIENCE - 0.1)
    assert silence.is_in_question(100, 110 + PATIENCE)


def test_while_it_is_asked_it_is_not_asked_again() -> None:
    silence = quiet()
    silence.ask(110)
    assert not silence.is_in_question(100, 200)


def test_a_question_that_could_not_be_put_tells_nothing() -> None:
    silence = quiet()
    silence.ask(110)
    silence.withdraw()
    assert not silence.is_dead(200)
    assert silence.is_in_question(100, 110 + PATIENCE)
