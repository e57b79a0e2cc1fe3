"""How long calls may wait for their message: one timer for all of them."""

import asyncio
from collections.abc import Awaitable
from typing import Any


class Patience:
    """
    Cuts off tasks that wait longer than ``seconds``; for one event loop.

    A timer for each call took longer than all else that is done to let it in.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due_s: dict[asyncio.Task[Any], float] = {}    # the first comes first
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, work: Awaitable[Any]) -> Any:
        """Return what ``work`` returns; asyncio.TimeoutError when that takes too long."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is None:
            raise RuntimeError('only a task can wait')
        self._due_s[task] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._cut)
        try:
            return await work
        except asyncio.CancelledError:
            if task not in self._due_s:
                raise asyncio.TimeoutError from None
            raise
        finally:
            self._due_s.pop(task, None)

    def _cut(self) -> None:
        """Cancel those whose time is over, and come back for the next one."""
        loop, self._timer = asyncio.get_running_loop(), None
        for task, due_s in list(self._due_s.items()):
            if due_s > loop.time():
                self._timer = loop.call_at(due_s, self._cut)
                return
            del self._due_s[task]
            task.cancel()
