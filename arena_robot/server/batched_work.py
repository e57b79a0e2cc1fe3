"""Work on the database that many calls need at the same time, done for all of them together."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

K = TypeVar('K')
V = TypeVar('V')
MOST = 256    # at once


class BatchedWork(Generic[K, V]):
    """
    Does what is asked in a thread; what is asked meanwhile is done next, together.

    For one event loop. ``work`` returns a result for each question, in their order; an error
    among the results is raised for its question, one that ``work`` raises for all.
    """

    def __init__(self, work: Callable[[Sequence[K]], Sequence[V | Exception]],
                 threads: Executor) -> None:
        self._work = work
        self._threads = threads
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, question: K) -> V:
        """Return the result for a question."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._run())
        return await future

    def close(self) -> None:
        """Do nothing more; who waits is cancelled."""
        if self._running is not None:
            self._running.cancel()
        for _, future in self._waiting:
            future.cancel()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            questions = [question for question, _ in batch]
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._work, questions)
            except asyncio.CancelledError:
                for _, future in batch:
                    future.cancel()
                raise
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():    # its call was given up
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
