"""A verb of `arena` that a server runs in the background, in a process of the lowest priority."""

import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from arena_robot.core.files import write_text
from arena_robot.core.process import NOTHING, Process
from arena_robot.server.config import ServerConfig

log = logging.getLogger(__name__)

LONGEST_STEPS = 30    # calls after which the process is given up
PAUSE_STEPS = 60      # calls without another try after it failed
CLOSE_S = 1.0


class BackgroundCommand:
    """
    Runs `arena VERB ...` when ``due`` returns its arguments; call ``step`` every minute.

    It does not run at the first step, nor twice at a time, and waits after a failure.
    """

    def __init__(self, config: ServerConfig, name: str,
                 due: Callable[[], Sequence[str]]) -> None:
        self._config, self._name, self._due = config, name, due
        self._running: Process | None = None
        self._steps = self._calls = 0
        self._next = 2

    def step(self) -> None:
        """Begin when it is due and does not run."""
        self._calls += 1
        if self._running is not None:
            self._steps += 1
            if self._running.code is None and self._steps < LONGEST_STEPS:
                return
            if self._running.code != 0:
                log.warning('%s: the process failed: %s', self._name, self._running.code)
                self._next = self._calls + PAUSE_STEPS
            self._running.kill()
            self._running = None
        if self._calls < self._next:
            return
        if words := self._due():
            self._running, self._steps = Process(self._name, self._call(words), NOTHING), 0
            self._running.start()
            self._running.lower_priority()

    def close(self) -> None:
        """End the process; what it stored is kept."""
        if self._running is not None:
            self._running.end(CLOSE_S / 2, CLOSE_S / 2)
            self._running = None

    def _call(self, words: Sequence[str]) -> list[str]:
        """Return the command; what it has to know of the server is in a file of its folder."""
        where = self._config.data / f'{self._name}.yaml'
        write_text(where, json.dumps({name: str(value) for name, value in (
            ('data', Path(self._config.data).resolve()),
            ('database', self._config.database), ('blobs', self._config.blobs),
            ('key_file', self._config.key_path().resolve())) if value}))
        return [sys.executable, '-m', 'arena_robot.cli.main', *words, '--config', str(where)]
