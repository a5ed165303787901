import asyncio
import gc
import logging
import weakref

import pytest

from proxy import tasks


def test_result_name_and_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def work(fail: bool) -> int:
        await asyncio.sleep(0)
        if fail:
            raise ValueError("why")
        return 7

    async def main() -> None:
        task = tasks.start(work(False), "good")
        assert task.get_name() == "good"
        assert await task == 7
        failing = tasks.start(work(True), "bad")
        await asyncio.wait([failing])

    asyncio.run(main())
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "task bad failed" in record.getMessage()
    assert "ValueError: why" in caplog.text


def test_a_task_that_nobody_keeps_ends() -> None:
    awaited: list[weakref.ref[asyncio.Future[None]]] = []
    ended = []

    async def work() -> None:
        # Only this task refers to the future, and only the future refers to the task.
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        awaited.append(weakref.ref(future))
        await future
        ended.append(True)

    async def main() -> None:
        tasks.start(work(), "forgotten")
        await asyncio.sleep(0)
        gc.collect()
        future = awaited[0]()
        assert future is not None
        future.set_result(None)
        del future
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert ended


def test_stop_waits_and_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    steps = []

    async def work(number: int) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            steps.append(number)

    async def fail() -> None:
        raise ValueError("why")

    async def main() -> None:
        running = [tasks.start(work(number), "w") for number in range(3)]
        failed = tasks.start(fail(), "f")
        await asyncio.sleep(0)
        await tasks.stop(*running, failed)
        assert all(task.done() for task in running)

    asyncio.run(main())
    assert sorted(steps) == [0, 1, 2]
    assert [record.getMessage() for record in caplog.records] == ["task f failed"]
