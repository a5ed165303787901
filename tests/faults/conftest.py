"""Tests here are coroutines: each runs on uvloop, and must leave nothing behind."""

import asyncio
import inspect
import logging
from typing import Any

import pytest
import uvloop

LIMIT_S = 60
"""A test that takes longer hangs."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    caplog: pytest.LogCaptureFixture = pyfuncitem._request.getfixturevalue("caplog")
    with caplog.at_level(logging.DEBUG):
        uvloop.run(_judged(test(**arguments)))
    tracebacks = [record.getMessage() for record in caplog.records if record.exc_info]
    assert not tracebacks, f"an exception was not handled: {tracebacks}"
    return True


async def _judged(test: Any) -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with asyncio.timeout(LIMIT_S):
        await test
    for _ in range(2000):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            break
        await asyncio.sleep(0.01)
    assert not left, f"tasks are left: {left}"
    assert not unhandled, f"exceptions reached the event loop: {unhandled}"
