"""When memory is given back: after many connections have ended, and not again and again."""

import asyncio
import ctypes
from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from proxy.shared import memory_release
from proxy.shared.memory_release import MemoryRelease, malloc_trim


def due(counts: Iterable[int]) -> list[int]:
    """At which of these counts memory is given back."""
    counted = list(counts)
    following = iter(counted)
    release = MemoryRelease(lambda: next(following), None)
    return [k for k, _ in enumerate(counted) if release.is_due()]


def test_a_while_after_many_have_ended() -> None:
    assert due([0, 700, 2100, 1500, 600, *[0] * 40]) == [13]


def test_not_for_few_nor_for_a_small_part() -> None:
    assert due([127, *[0] * 40]) == []
    assert due([128, *[0] * 40]) == [11]
    assert due([4000, *[3001] * 40]) == []
    assert due([4000, *[3000] * 40]) == [11]


def test_what_ends_little_by_little_counts_together() -> None:
    assert due([1000, 900, 900, 800, 800, 750, *[740] * 40]) == [15]


def test_again_and_again_but_not_often() -> None:
    assert due([0, 700, 0, 0] * 10) == [12, 24, 36]


def test_nothing_is_done_where_the_allocator_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert malloc_trim() is None

    async def story() -> None:
        release = MemoryRelease(lambda: 0, malloc_trim())
        release.start()
        await release.stop()

    asyncio.run(story())


def test_it_is_called_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_release, "_EVERY_S", 0)
    counts = iter([700])
    called = asyncio.Event()

    async def story() -> None:
        release = MemoryRelease(lambda: next(counts, 0), called.set)
        release.start()
        await called.wait()
        await release.stop()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_glibc_gives_memory_back() -> None:
    trim = malloc_trim()
    if trim is not None:
        trim()


@pytest.mark.parametrize(("left", "collections"), [(127, 1), (128, 0)])
def test_free_lists_are_emptied_where_few_are_left(
    monkeypatch: pytest.MonkeyPatch, left: int, collections: int
) -> None:
    """A collection would hold up the others, if there are many."""
    monkeypatch.setattr(memory_release, "_EVERY_S", 0)
    collected: list[None] = []
    monkeypatch.setattr(
        memory_release, "gc", SimpleNamespace(collect=lambda: collected.append(None))
    )
    counts = iter([700])
    called = asyncio.Event()

    async def story() -> None:
        release = MemoryRelease(lambda: next(counts, left), called.set)
        release.start()
        await called.wait()
        await release.stop()

    asyncio.run(asyncio.wait_for(story(), 30))
    assert len(collected) == collections
