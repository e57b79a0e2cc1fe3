"""Sources of comparisons for the ranking node: a folder, a database, a server's site."""

import json
import logging
import urllib.request
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, Protocol

from arena_robot.core.clock import to_iso
from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import ConfigError, ServerUnavailable
from arena_robot.records.roboarena_files import read_folder, table_paths
from arena_robot.records.session_file import comparisons_below, session_paths
from arena_robot.server.results.standings import Results
from arena_robot.server.store.browse import COUNTED_MARKS
from arena_robot.server.store.database import Database

TIMEOUT_S = 10.0

log = logging.getLogger(__name__)


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
                      e['mark'] or 'relayed')
