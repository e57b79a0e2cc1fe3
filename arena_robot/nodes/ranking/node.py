"""
ranking_node: publishes standings, recomputed when results arrive.

Watches a folder of sessions or tables, an arena server's database, or its site; publishes the
standings latched on ``~/ranking`` and answers ``~/get_ranking`` (method, subset, since) and
``~/ingest_episode``. It must not run at a station, because it publishes policy names.
"""

import logging
import sys
import threading
import time
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup

from arena_msgs.msg import Ranking, RankingEntry
from arena_msgs.srv import GetRanking, IngestEpisode
from arena_robot.core.clock import from_iso
from arena_robot.core.episode import Comparison
from arena_robot.core.errors import ArenaError, ConfigError, RankingError
from arena_robot.nodes.lib import diagnostics, qos
from arena_robot.nodes.lib.convert import header
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.parameters import declare, refuse_unknown
from arena_robot.nodes.lib.spin import run_node
from arena_robot.nodes.lib.timeline import STEADY, RosClock
from arena_robot.nodes.ranking.params import RankingParams
from arena_robot.nodes.ranking.sources import RankingSource, source
from arena_robot.ranking.base import Comparisons, Ints
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.standings import Standings, is_few, place_words, shown_order
from arena_robot.records.session_file import read_session

log = logging.getLogger(__name__)

LEVEL = 0.95


class RankingNode(Listening):
    """Publishes standings; computes only when the inputs changed."""

    def __init__(self, **options: Any) -> None:
        super().__init__('ranking_node', **options)
        self.params = declare(self, RankingParams())
        refuse_unknown(self)
        try:
            METHODS.find(self.params.method)
        except RankingError as error:
            raise ConfigError(f'{self.get_fully_qualified_name()}: method: {error}') from error
        self._source: RankingSource = source(self.params.source)
        self._time = RosClock(self.get_clock(), self.context)
        self._lock = threading.Lock()
        self._version: Hashable = None
        self._changed_s = 0.0
        self._computed: Hashable = None
        self._words: list[Comparison] = []
        self._extra: dict[str, Comparison] = {}
        self._problem = ''
        self._ranking = qos.publisher(self, Ranking, '~/ranking', qos.LATCHED)
        self._reports = qos.publisher(self, DiagnosticArray, '/diagnostics')
        group = MutuallyExclusiveCallbackGroup()
        self.create_service(GetRanking, '~/get_ranking', self._on_get, callback_group=group)
        self.create_service(IngestEpisode, '~/ingest_episode', self._on_ingest,
                            callback_group=group)
        self.create_timer(self.params.period, self.look, clock=STEADY,
                          callback_group=MutuallyExclusiveCallbackGroup())
        self.create_timer(1.0, self._report, clock=STEADY,
                          callback_group=MutuallyExclusiveCallbackGroup())

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def look(self) -> None:
        """Publish new standings when the source has changed, after the debounce time."""
        try:
            version = (self._source.version(), len(self._extra))
            now = time.monotonic()
            if version != self._version:
                self._version, self._changed_s = version, now
            if version == self._computed or now - self._changed_s < self.params.debounce:
                return
            self._computed = version
            with self._lock:
                self._words = self._source.comparisons()
            self._ranking.publish(self.message(self.params.method, self.verdicts()))
            self._problem = ''
        except ArenaError as error:
            if str(error) != self._problem:
                log.warning('no new standings: %s', error)
            self._problem = str(error)

    def verdicts(self, policies: Sequence[str] = (), since_ns: int = 0) -> list[Comparison]:
        """Return the verdicts between ``policies`` (all when empty) made at ``since_ns`` on."""
        with self._lock:
            known = {c.session_id: c for c in self._words} | self._extra
        chosen = set(policies)
        return [c for c in known.values()
                if (not chosen or chosen >= {c.a, c.b})
                and (not since_ns or _stamp_ns(c.created) >= since_ns)]

    def message(self, method: str, verdicts: list[Comparison]) -> Ranking:
        """Return the standings of ``verdicts``; RankingError when they give none."""
        found, others = rank_comparable(
            Comparisons.from_words(verdicts), method, intervals=self.params.intervals,
            cluster=self.params.cluster_by)
        warnings = list(found.diagnostics.warnings)
        if others:
            warnings.append(f"left out, not comparable with the others: {', '.join(others)}")
        return Ranking(
            header=header(self._time.now_ns(), ''), method=method,
            confidence=LEVEL if self.params.intervals else 0.0,
            comparisons=int(found.counts.sum()) // 2, converged=found.diagnostics.converged,
            warnings=warnings, entries=_entries(found))

    def _on_get(self, request: GetRanking.Request,
                response: GetRanking.Response) -> GetRanking.Response:
        try:
            since_ns = request.since.sec * 10**9 + request.since.nanosec
            if request.method:
                METHODS.find_named(request.method)
            response.ranking = self.message(request.method or self.params.method,
                                            self.verdicts(request.policies, since_ns))
            response.success = True
        except ArenaError as error:
            response.message = str(error)
        return response

    def _on_ingest(self, request: IngestEpisode.Request,
                   response: IngestEpisode.Response) -> IngestEpisode.Response:
        try:
            verdict = read_session(Path(request.directory)).comparison()
        except ArenaError as error:
            response.message = str(error)
            return response
        if verdict is None:
            response.message = ('this session does not count: it is not done, not valid, not '
                                'revealed, its reveal does not fit, or both policies are the '
                                'same')
            return response
        with self._lock:
            self._extra[verdict.session_id] = verdict
        response.success, response.session_id = True, verdict.session_id
        return response

    def _report(self) -> None:
        level = diagnostics.WARN if self._problem else diagnostics.OK
        self._reports.publish(diagnostics.report(self._time.now_ns(), diagnostics.status(
            self, 'standings', self.params.source, level,
            self._problem or 'current', {'verdicts': len(self.verdicts())})))


def _entries(found: Standings) -> list[RankingEntry]:
    return [RankingEntry(
        policy=found.items[k], score=float(found.scores[k]), low=float(found.low[k]),
        high=float(found.high[k]), rank=int(found.ranks[k]), rank_low=_bound(found.rank_low, k),
        rank_high=_bound(found.rank_high, k), too_few=is_few(found, k),
        place=place_words(found, k), n=int(found.counts[k])) for k in shown_order(found)]


def _bound(ranks: Ints | None, k: int) -> int:
    return 0 if ranks is None else int(ranks[k])


def _stamp_ns(text: str) -> int:
    """Return a verdict's time in nanoseconds; one without a time is never too old."""
    if not text:
        return int(np.iinfo(np.int64).max)
    return from_iso(text)


def main(args: Sequence[str] | None = None) -> int:
    """Run the ranking node until it is interrupted."""
    return run_node(lambda spin: RankingNode(context=spin.context), args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
