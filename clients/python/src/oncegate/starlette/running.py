"""What goes on to its end although the request that wants it was cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

RUNNING: set["asyncio.Task[Any]"] = set()
"""asyncio keeps no task alive by itself."""

STOP_SECONDS_MAX = 5.0
"""How long a server that stops waits for us."""


def keep_running(work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
    """Begins work that ends by itself, whoever waits for it."""
    task = asyncio.create_task(work)
    RUNNING.add(task)
    task.add_done_callback(RUNNING.discard)
    return task


async def all_to_their_end() -> None:
    """Waits for what goes on, for a few seconds: what is not released by then, its lease ends."""
    # Requests that the server has just cancelled begin to roll back.
    await asyncio.sleep(0)
    if RUNNING:
        await asyncio.wait(RUNNING, timeout=STOP_SECONDS_MAX)


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Awaits work that must not be cut short."""
    return await asyncio.shield(keep_running(work))
