"""What a server does with its sessions in the background: reports on policies, categories."""

import os
from collections import Counter

from arena_robot.core.clock import Clock
from arena_robot.server.background_command import BackgroundCommand
from arena_robot.server.config import ServerConfig
from arena_robot.server.results import Results
from arena_robot.server.store.categories import Categories
from arena_robot.server.store.database import Database
from arena_robot.server.store.reports import Reports

SHARE = 0.1
AT_ONCE = 20    # sessions that one process shows the model


class ReportWorker(BackgroundCommand):
    """
    Runs `arena report --all --save` when enough sessions came since the last reports.

    That is ``config.report_every`` sessions of a policy, and a tenth of those it had.
    """

    def __init__(self, config: ServerConfig, results: Results, reports: Reports) -> None:
        super().__init__(config, 'reports', self._words)
        self._results, self._reports = results, reports

    def due(self) -> bool:
        """Tell whether a policy has enough new sessions."""
        counted: Counter[str] = Counter()
        for (a, b, _), count in self._results.counts_by_name().items():
            counted.update({a: count, b: count})
        covered = self._reports.covered()
        return any(count - covered.get(name, 0) >= max(
            self._config.report_every, SHARE * covered.get(name, 0))
            for name, count in counted.items())

    def _words(self) -> list[str]:
        return ['report', '--all', '--save'] if self.due() else []


class CategoryWorker(BackgroundCommand):
    """
    Runs `arena categorise --model` while there are sessions that no model has categorised.

    At most ``config.categorise_per_day`` in any 24 hours, counted in the database. Address, model
    and key are in the environment, as for :class:`arena_robot.models.chat.ChatClient`.
    """

    def __init__(self, config: ServerConfig, categories: Categories) -> None:
        super().__init__(config, 'categories', self._words)
        self._categories = categories

    def due(self) -> int:
        """Return how many sessions may be shown to the model now."""
        if not (os.environ.get('ARENA_MODEL_URL') and os.environ.get('ARENA_MODEL')):
            return 0
        left = self._config.categorise_per_day - self._categories.by_model_in_a_day()
        most = max(0, min(left, AT_ONCE))
        return len(self._categories.unseen('', '', most)) if most else 0

    def _words(self) -> list[str]:
        count = self.due()
        return ['categorise', '--model', '--limit', str(count)] if count else []


def background_work(config: ServerConfig, results: Results, database: Database,
                    clock: Clock) -> dict[str, BackgroundCommand]:
    """Return what the configuration asks for, by name."""
    found: dict[str, BackgroundCommand] = {}
    if config.report_every > 0:
        found['reports'] = ReportWorker(config, results, Reports(database, clock))
    if config.categorise_per_day > 0:
        found['categories'] = CategoryWorker(config, Categories(database, clock))
    return found
