"""
ranking_node: publishes standings, recomputed when results arrive.

Watches a folder of sessions or tables, an arena server's database, or its site; publishes the
standings latched on ``~/ranking`` and answers ``~/get_ranking`` (method, subset, since) and
``~/ingest_episode``. It must not run at a station, because it publishes policy names.
"""

import json
import logging
import sys
import threading
import time
import urllib.request
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup

from arena_msgs.msg import Ranking, RankingEntry
from arena_msgs.srv import GetRanking, IngestEpisode
from arena_robot.core.clock import from_iso, to_iso
from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import ArenaError, ConfigError, RankingError, ServerUnavailable
from arena_robot.nodes.lib import diagnostics, qos
from arena_robot.nodes.lib.convert import header
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.parameters import Parameters, declare, param, refuse_unknown
from arena_robot.nodes.lib.spin import run_node
from arena_robot.nodes.lib.timeline import STEADY, RosClock
from arena_robot.ranking.base import Comparisons, Ints
from arena_robot.ranking.intervals.choice import CHOICES
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Standings, is_few, place_words, shown_order
from arena_robot.records.roboarena_files import read_folder, table_paths
from arena_robot.records.session_file import comparisons_below, read_session, session_paths
from arena_robot.server.results.standings import Results
from arena_robot.server.store.browse import COUNTED_MARKS
from arena_robot.server.store.database import Database

log = logging.getLogger(__name__)

LEVEL = 0.95        # of the intervals, as everywhere in the package
TIMEOUT_S = 10.0    # of a page of the site


@dataclass(frozen=True, kw_only=True)
class RankingParams(Parameters):
    """The parameters of ranking_node."""

    source: str = param(
        '~/arena/sessions', 'folder of sessions or tables, database URL, or site')
    method: str = param(RECOMMENDED, 'default method, by name or module:name')
    intervals: int = param(
        200, 'bootstrap replicates behind the intervals; 0: none', 0, 10_000)
    cluster_by: str = param(
        'auto', 'what counts as one observation in the intervals', choices=CHOICES)
    period: float = param(1.0, 'period of checks of the source', 0.05, 3600.0, unit='s')
    debounce: float = param(
        0.5, 'time without changes before standings are computed', 0.0, 60.0, unit='s')


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
        standings, others = rank_comparable(
            Comparisons.from_words(verdicts), method, intervals=self.params.intervals,
            cluster=self.params.cluster_by)
        warnings = list(standings.diagnostics.warnings)
        if others:
            warnings.append(f"left out, not comparable with the others: {', '.join(others)}")
        return Ranking(
            header=header(self._time.now_ns(), ''), method=method,
            confidence=LEVEL if self.params.intervals else 0.0,
            comparisons=int(standings.counts.sum()) // 2,
            converged=standings.diagnostics.converged, warnings=warnings,
            entries=_entries(standings))

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


def _entries(standings: Standings) -> list[RankingEntry]:
    return [RankingEntry(
        policy=standings.items[k], score=float(standings.scores[k]), low=float(standings.low[k]),
        high=float(standings.high[k]), rank=int(standings.ranks[k]),
        rank_low=_bound(standings.rank_low, k), rank_high=_bound(standings.rank_high, k),
        too_few=is_few(standings, k), place=place_words(standings, k),
        n=int(standings.counts[k])) for k in shown_order(standings)]


def _bound(ranks: Ints | None, k: int) -> int:
    return 0 if ranks is None else int(ranks[k])


def _stamp_ns(text: str) -> int:
    """Return a verdict's time in nanoseconds; one without a time is never too old."""
    if not text:
        return int(np.iinfo(np.int64).max)
    return from_iso(text)


class RankingSource(Protocol):
    """Interface of a source: comparisons, and a version that changes with them."""

    def version(self) -> Hashable:
        """Return a value that differs whenever the verdicts may."""

    def comparisons(self) -> list[Comparison]:
        """Return every counted verdict, oldest first. Raises DataError or ServerError."""

    def close(self) -> None:
        """Close the source."""


class FolderSource:
    """Sessions of a station below a folder, or ``sessions.csv`` and ``episodes.csv`` in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables = table_paths(folder)

    def version(self) -> Hashable:
        """Return the names, times and sizes of what is read."""
        paths = [p for p in self._tables if p.exists()] \
            or session_paths(self._folder)
        return tuple((str(p), s.st_mtime_ns, s.st_size) for p in paths for s in (p.stat(),))

    def comparisons(self) -> list[Comparison]:
        """Return the verdicts of the tables, or else of the sessions."""
        if self._tables[0].exists():
            data = read_folder(self._folder)
            for line in data.refusals():
                log.warning('refused: %s', line)
            return data.comparisons()
        return comparisons_below(self._folder)

    def close(self) -> None:
        """Do nothing: nothing is open."""


class DatabaseSource:
    """The store of an arena server on this machine or another."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._database.open()
        self._results = Results(self._database)

    def version(self) -> Hashable:
        """Return how many verdicts count, and when the last fell."""
        return self._results.version()

    def comparisons(self) -> list[Comparison]:
        """Return the verdicts."""
        return self._results.comparisons()

    def close(self) -> None:
        """Close the database."""
        self._database.close()


class SiteSource:
    """The site of an arena server, by its address such as ``http://arena.example.org:8061``."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip('/')
        self._version: Hashable = None
        self._kept: list[Comparison] = []

    def version(self) -> Hashable:
        """Return the size of the log, which grows with withdrawals too, and the newest id."""
        newest = self._get('/api/evaluations?limit=1')['evaluations']
        return self._get('/api/log/head')['size'], newest[0]['id'] if newest else ''

    def comparisons(self) -> list[Comparison]:
        """Return the verdicts; all pages are fetched again when the version changed."""
        version = self.version()
        if version != self._version:
            rows = sorted(self._pages(), key=lambda e: (e['created_ns'], e['id']))
            self._kept = [_comparison(e) for e in rows if e['valid'] and e['preference']
                          and e['mark'] in COUNTED_MARKS and e['policy_a'] != e['policy_b']]
            self._version = version
        return list(self._kept)

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _pages(self) -> Iterator[dict[str, Any]]:
        key = ''
        while True:
            page = self._get(f'/api/evaluations?limit=200&before={key}')
            yield from page['evaluations']
            if not page['next'] or page['next'] == key:
                return
            key = page['next']

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self._address + path, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except (OSError, ValueError) as error:
            raise ServerUnavailable(f'{self._address} does not answer: {error}') from error


def source(text: str) -> RankingSource:
    """Return the source that a parameter names: a folder, a database URL, a site's address."""
    if text.startswith(('http://', 'https://')):
        return SiteSource(text)
    if '://' in text:
        return DatabaseSource(text)
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"source '{text}' is no folder, no database URL such as "
                          'sqlite:////data/arena.db, and no site such as http://host:8061')
    return FolderSource(folder)


def _comparison(e: dict[str, Any]) -> Comparison:
    nan = float('nan')
    a, b = (nan if e[k] is None else float(e[k]) for k in ('progress_a', 'progress_b'))
    return Comparison(e['id'], e['policy_a'], e['policy_b'], Preference(e['preference']), a, b,
                      '', e['institution'], e['prompt'], to_iso(e['created_ns']),
                      e['mark'] or 'relayed', chosen=e.get('chosen'))


def main(args: Sequence[str] | None = None) -> int:
    """Run the ranking node until it is interrupted."""
    return run_node(lambda spin: RankingNode(context=spin.context), args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
