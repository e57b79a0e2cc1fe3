"""Reports on policies in the background, in a process of the lowest priority."""

import json
import logging
import sys
from collections import Counter
from pathlib import Path

from arena_robot.core.files import write_text
from arena_robot.core.process import NOTHING, Process
from arena_robot.server.config import ServerConfig
from arena_robot.server.results import Results
from arena_robot.server.store.reports import Reports

log = logging.getLogger(__name__)

LONGEST_STEPS = 30    # calls after which the process is given up
PAUSE_STEPS = 60      # calls without another try after it failed
CLOSE_S = 1.0
SHARE = 0.1


class ReportWorker:
    """
    Runs `arena report --all --save` when enough sessions came since the last reports.

    That is ``config.report_every`` sessions of a policy, and a tenth of those it had. Call
    ``step`` every minute.
    """

    def __init__(self, config: ServerConfig, results: Results, reports: Reports) -> None:
        self._config, self._results, self._reports = config, results, reports
        self._running: Process | None = None
        self._steps = self._calls = 0
        self._next = 2

    def step(self) -> None:
        """Begin to make reports when they are due and none are being made; not at the first."""
        self._calls += 1
        if self._running is not None:
            self._steps += 1
            if self._running.code is None and self._steps < LONGEST_STEPS:
                return
            if self._running.code != 0:
                log.warning('reports were not made: %s', self._running.code)
                self._next = self._calls + PAUSE_STEPS
            self._running.kill()
            self._running = None
        if self._calls >= self._next and self.due():
            self._running, self._steps = Process('reports', self._call(), NOTHING), 0
            self._running.start()
            self._running.lower_priority()

    def due(self) -> bool:
        """Tell whether a policy has enough new sessions."""
        counted: Counter[str] = Counter()
        for (a, b, _), count in self._results.counts_by_name().items():
            counted.update({a: count, b: count})
        covered = self._reports.covered()
        return any(count - covered.get(name, 0) >= max(
            self._config.report_every, SHARE * covered.get(name, 0))
            for name, count in counted.items())

    def close(self) -> None:
        """End the process; what it made is kept."""
        if self._running is not None:
            self._running.end(CLOSE_S / 2, CLOSE_S / 2)
            self._running = None

    def _call(self) -> list[str]:
        """Return the command; what it has to know of the server is in a file of its folder."""
        where = self._config.data / 'reports.yaml'
        write_text(where, json.dumps({name: str(value) for name, value in (
            ('data', Path(self._config.data).resolve()),
            ('database', self._config.database), ('blobs', self._config.blobs),
            ('key_file', self._config.key_path().resolve())) if value}))
        return [sys.executable, '-m', 'arena_robot.cli.main', 'report', '--all', '--save',
                '--config', str(where)]
