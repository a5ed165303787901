"""Offsets of clocks from bounds on them, without Spark."""

from itertools import permutations
from random import Random

import pytest

pytest.importorskip("pyspark")

from spark_jobs.clocks.clock_offsets import solve


def test_clocks_that_nothing_contradicts_agree() -> None:
    told = solve([1, 2], {(1, 2): 300, (2, 1): 0})
    assert (told.ahead_us, told.error_us) == ({1: 0, 2: 0}, 0)


def test_one_is_ahead_by_the_middle_of_what_can_be() -> None:
    told = solve([1, 2], {(2, 1): 10_400, (1, 2): -9_600})
    assert (told.ahead_us, told.error_us) == ({1: 0, 2: 10_000}, 400)


def test_the_one_that_contradicts_the_others_is_wrong() -> None:
    bounds = dict.fromkeys(permutations((2, 3), 2), 500)
    bounds |= {(1, 2): 7_000, (2, 1): -6_000, (1, 3): 7_000, (3, 1): -6_000}
    told = solve([1, 2, 3], bounds)
    assert told.ahead_us == {1: 6_500, 2: 0, 3: 0}
    assert told.error_us == 500


def test_of_a_step_that_nothing_bounds_the_least_is_taken() -> None:
    told = solve([1, 2], {(2, 1): -50_000})
    assert (told.ahead_us, told.error_us) == ({1: 0, 2: -50_000}, 0)


def test_a_clock_that_drifts_makes_the_error_larger() -> None:
    # In the morning it was 2 ms ahead at most, in the evening 8 ms at least.
    told = solve([1, 2], {(2, 1): 2_000, (1, 2): -8_000})
    assert told.ahead_us == {1: 0, 2: 5_000}
    assert told.error_us >= 3_000


def test_clocks_of_another_cluster_have_nothing_to_do_with_it() -> None:
    told = solve([1, 2, 3, 4], {(1, 2): 10, (2, 1): 10, (3, 4): -900, (4, 3): 1_000})
    assert (told.ahead_us[1], told.ahead_us[2]) == (0, 0)
    assert told.ahead_us[4] - told.ahead_us[3] == 950


@pytest.mark.parametrize("seed", range(20))
def test_offsets_keep_what_true_offsets_keep(seed: int) -> None:
    random = Random(seed)
    true = {clock: random.choice((0, 0, random.randrange(-90_000, 90_000))) for clock in range(6)}
    bounds = {
        (a, b): true[a] - true[b] + random.randrange(0, 2_000) for a, b in permutations(true, 2)
    }
    told = solve(list(true), bounds)
    for (a, b), most in bounds.items():
        ahead = told.ahead_us[a] - told.ahead_us[b]
        assert ahead <= most + 1
        if told.ahead_us[a] != told.ahead_us[b]:
            assert abs(ahead - (true[a] - true[b])) <= told.error_us + 1
