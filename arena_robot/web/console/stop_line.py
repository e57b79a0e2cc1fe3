"""STOP from the page to the desk: by a request and by a WebSocket, whichever arrives first."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from arena_robot.core.errors import ArenaError
from arena_robot.session.evaluator.desk import Desk

STOP_THREADS = 16      # more presses at once than evaluators have hands
SAME_PRESS_S = 10.0    # the slower of a press's two ways arrives within that


class StopPresses:
    """
    Stops the arm once per press of the button.

    A page sends each press by both ways under one name: the first that arrives stops the arm, and
    both are answered when the arm has confirmed its rest. The same name by the same way is another
    press. STOP has its own threads, so it waits for no other request.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._threads = ThreadPoolExecutor(STOP_THREADS, 'stop')
        self._presses: dict[str, _Press] = {}

    async def rest(self, way: str, name: str = '') -> None:
        """Stop the arm; return once it has confirmed rest. Raises ArenaError."""
        now_s = time.monotonic()
        self._presses = {name: press for name, press in self._presses.items()
                         if now_s - press.at_s < SAME_PRESS_S}
        press = self._presses.pop(name, None)
        if press is None or press.way == way:
            stopping = asyncio.get_running_loop().run_in_executor(self._threads, self._desk.stop)
            stopping.add_done_callback(lambda done: done.cancelled() or done.exception())
            press = _Press(way, now_s, stopping)
            if name:
                self._presses[name] = press
        await asyncio.shield(press.stopping)


@dataclass(frozen=True)
class _Press:
    """A press that has come by one way, and may come by the other."""

    way: str
    at_s: float
    stopping: 'asyncio.Future[None]'


def add_stop(app: FastAPI, desk: Desk) -> None:
    """Add both ways of STOP to the application."""
    presses = StopPresses(desk)

    @app.post('/api/stop')
    async def stop(press: str = '') -> dict[str, Any]:
        await presses.rest('request', press)
        return {'at_rest': True}

    async def answer(line: WebSocket, press: str) -> None:
        try:
            await presses.rest('line', press)
            words: dict[str, Any] = {'stop': press, 'at_rest': True}
        except ArenaError as error:
            words = {'stop': press, 'at_rest': False, 'detail': str(error)}
        with suppress(RuntimeError, WebSocketDisconnect):    # the page is gone
            await line.send_json(words)

    @app.websocket('/api/stop_line')
    async def stop_line(line: WebSocket) -> None:
        """Answer ``{"ping": n}`` with the same, and ``{"stop": name}`` once the arm rests."""
        await line.accept()
        answers: set[asyncio.Task[None]] = set()
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                words = await _words(line)
                if words is None:
                    await line.close(1003, 'expected {"stop": name} or {"ping": number}')
                    return
                if 'ping' in words:
                    await line.send_json({'ping': words['ping']})
                if 'stop' in words:
                    task = asyncio.create_task(answer(line, str(words['stop'])))
                    answers.add(task)
                    task.add_done_callback(answers.discard)


async def _words(line: WebSocket) -> dict[str, Any] | None:
    """Return the next message, None when it is no mapping."""
    try:
        words = await line.receive_json()
    except (ValueError, KeyError):
        return None
    return words if isinstance(words, dict) else None
