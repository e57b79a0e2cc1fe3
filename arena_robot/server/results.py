"""Comparisons from the stored verdicts, and the standings computed from them."""

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from arena_robot.core.episode import Comparison
from arena_robot.core.errors import RankingError
from arena_robot.ranking.as_json import as_json
from arena_robot.ranking.base import Comparisons, Standings
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.needed import sessions_needed
from arena_robot.ranking.origins import not_relayed_of, origins
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.server.assignment_goals import Posterior, posterior_of
from arena_robot.server.base import PolicyRecord
from arena_robot.server.store.categories import category_version
from arena_robot.server.store.database import Database
from arena_robot.server.store.policies import policy_names
from arena_robot.server.store.tallies import (
    PairTally,
    Score,
    TallyBy,
    between,
    by_pair,
    scores_by_group,
    tallies,
)
from arena_robot.server.store.verdicts import (
    counted_verdicts,
    origins_of_verdicts,
    tally_of_verdicts,
    verdicts_version,
)

log = logging.getLogger(__name__)

LOOK_S = 2.0
INTERVALS = 200
_T = TypeVar('_T')
_Kept = tuple[tuple[int, int], tuple[Standings, list[str]]]


@dataclass(frozen=True)
class _Grouped:
    """The tallies of a version, and what pages compute of them, each once."""

    version: tuple[tuple[int, int], int]
    rows: list[PairTally]

    @cached_property
    def scores(self) -> dict[str, dict[str, Score]]:
        return scores_by_group(self.rows)

    @cached_property
    def pairs(self) -> dict[frozenset[str], list[PairTally]]:
        return by_pair(self.rows)


class Results:
    """Reads verdicts; summaries are kept until another verdict counts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._tally: dict[tuple[int, int, str], int] = {}
        self._tallied: tuple[int, int] | None = None
        self._version = (0, 0)
        self._looked_s = float('-inf')
        self._renewing: set[tuple[str, bool, int]] = set()
        self._standings: dict[tuple[str, bool, int], _Kept] = {}
        self._grouped: dict[TallyBy, _Grouped] = {}
        self._once: tuple[tuple[int, int], dict[tuple[str, ...], Any]] = ((0, 0), {})
        self._origins: tuple[tuple[int, int], dict[str, int]] | None = None

    def comparisons(self, open_source: bool = False) -> list[Comparison]:
        """Return every verdict that counts: accepted and not withdrawn; oldest first."""
        with self._database.read() as connection:
            return counted_verdicts(connection, open_source)

    def once(self, key: tuple[str, ...], make: Callable[[], _T]) -> _T:
        """Return what ``make`` returns, kept under ``key`` until another verdict counts."""
        version = self.version()
        with self._lock:
            if self._once[0] != version:
                self._once = (version, {})
            kept = self._once[1]
        if key not in kept:
            kept[key] = make()
        found: _T = kept[key]
        return found

    def tallies(self, by: TallyBy) -> list[PairTally]:
        """Return every verdict that counts by group and pair; kept until something changes."""
        return self._tallied_by(by).rows

    def scores(self, by: TallyBy) -> dict[str, dict[str, Score]]:
        """Return each policy's score within each group, as :func:`scores_by_group`; kept."""
        return self._tallied_by(by).scores

    def met(self, first: str, second: str) -> dict[str, Score]:
        """Return the score of ``first`` against ``second`` in each category where they met."""
        pairs = self._tallied_by(TallyBy.CATEGORY).pairs
        return between(pairs.get(frozenset((first, second)), []), first, second)

    def _tallied_by(self, by: TallyBy) -> _Grouped:
        verdicts = self.version()
        with self._database.read() as connection:
            version = verdicts, category_version(connection)
        with self._lock:
            kept = self._grouped.get(by)
        if kept is None or kept.version != version:
            kept = _Grouped(version, tallies(self._database, by))
            with self._lock:
                self._grouped[by] = kept
        return kept

    def origins(self) -> dict[str, int]:
        """Return how many verdicts that count passed the relay, how many are imported; kept."""
        version = self.version()
        with self._lock:
            kept = self._origins
        if kept is None or kept[0] != version:
            with self._database.read() as connection:
                kept = version, origins_of_verdicts(connection)
            with self._lock:
                self._origins = kept
        return kept[1]

    def posterior(self, candidates: Sequence[PolicyRecord]) -> Posterior | None:
        """Return what Bradley–Terry knows of the candidates; None before the first verdict."""
        place = {record.id: k for k, record in enumerate(candidates)}
        wins = np.zeros((len(candidates),) * 2)
        for (a, b, preference), count in self._counts().items():
            if a in place and b in place:
                share = {'A': 1.0, 'TIE': 0.5, 'B': 0.0}[preference]
                wins[place[a], place[b]] += share * count
                wins[place[b], place[a]] += (1.0 - share) * count
        return posterior_of(wins) if wins.any() else None

    def standings(self, method: str = RECOMMENDED, open_source: bool = False,
                  intervals: int = INTERVALS) -> tuple[Standings, list[str]]:
        """
        Return the standings of the policies that can be compared, and the names of the others.

        Kept until another verdict counts. Raises RankingError when no two can be compared.
        """
        METHODS.find_named(method)
        key = (method, open_source, intervals)
        version = self.version()
        with self._lock:
            kept = self._standings.get(key)
        if kept is not None and kept[0] == version:
            return kept[1]
        words = self.comparisons(open_source)
        votes = Comparisons.from_words(words)
        found = _with_basis(*rank_comparable(votes, method, intervals=intervals), words, votes)
        with self._lock:
            self._standings[key] = (version, found)
        return found

    def latest(self, method: str = RECOMMENDED, open_source: bool = False,
               intervals: int = INTERVALS) -> tuple[Standings, list[str]]:
        """
        Return the newest standings that are there, at once.

        When verdicts came in since, newer ones are computed in the background.
        """
        key = (method, open_source, intervals)
        with self._lock:
            kept = self._standings.get(key)
        if kept is None:
            return self.standings(*key)
        if kept[0] != self.version():
            self._renew(key)
        return kept[1]

    def _renew(self, key: tuple[str, bool, int]) -> None:
        with self._lock:
            if key in self._renewing:
                return
            self._renewing.add(key)

        def work() -> None:
            try:
                self.standings(*key)
            except RankingError as error:
                log.warning('the standings by %s were not renewed: %s', key[0], error)
            finally:
                self._renewing.discard(key)

        threading.Thread(target=work, name='standings', daemon=True).start()

    def counts_by_name(self) -> dict[tuple[str, str, str], int]:
        """Return how often each verdict fell, by (policy A, policy B, preference)."""
        counts = self._counts()
        with self._database.read() as connection:
            names = policy_names(connection)
        return {(names[a], names[b], word): n for (a, b, word), n in counts.items()}

    def standings_json(self, method: str, open_source: bool) -> str:
        """Return the standings as `arena rank --json` prints them."""
        found, others = self.standings(method or RECOMMENDED, open_source)
        return json.dumps({**as_json(found), 'not_comparable': others}, allow_nan=False)

    def forget(self) -> None:
        """Read the verdicts again at the next call: one was just stored."""
        with self._lock:
            self._looked_s = float('-inf')

    def version(self) -> tuple[int, int]:
        """
        Return what changes with every verdict that counts: how many, and when the last.

        Another process's verdicts are seen within ``LOOK_S`` seconds.
        """
        with self._lock:
            if time.monotonic() - self._looked_s > LOOK_S:
                with self._database.read() as connection:
                    self._version = verdicts_version(connection)
                self._looked_s = time.monotonic()
            return self._version

    def _counts(self) -> dict[tuple[int, int, str], int]:
        version = self.version()
        with self._lock:
            if self._tallied != version:
                with self._database.read() as connection:
                    self._tally = tally_of_verdicts(connection)
                self._tallied = version
            return self._tally


def _with_basis(found: Standings, others: list[str], words: Sequence[Comparison],
                votes: Comparisons) -> tuple[Standings, list[str]]:
    """Return the standings with what they are based on, and how many more sessions are needed."""
    told, needed = found.diagnostics, sessions_needed(votes)
    details = {**told.details, 'institutions': len({w.institution for w in words} - {''}),
               'newest': max((w.created for w in words), default=''),
               'origins': origins(words), 'not_relayed': not_relayed_of(words),
               'needed': asdict(needed) if needed else None}
    return replace(found, diagnostics=replace(told, details=details)), others
