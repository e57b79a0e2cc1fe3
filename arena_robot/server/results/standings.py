"""Comparisons from the stored verdicts, and the standings computed from them."""

import json
import threading
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.episode import Comparison
from arena_robot.core.errors import NotComputed, RankingError
from arena_robot.core.task_categories import matched, objects
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import mean_progress
from arena_robot.ranking.differences import across_robots
from arena_robot.ranking.evaluators.fragility import fragility, fragility_words
from arena_robot.ranking.intervals.choice import Differences
from arena_robot.ranking.intervals.needed import sessions_needed
from arena_robot.ranking.methods import METHODS, rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Standings, as_json, not_relayed_of, origins
from arena_robot.server.base import PolicyRecord
from arena_robot.server.renewed_values import LOOK_S, RenewedValues
from arena_robot.server.sessions.assignment import Posterior, posterior_of
from arena_robot.server.store.categories import category_version
from arena_robot.server.store.database import Database
from arena_robot.server.store.policies import policy_names, policy_owners
from arena_robot.server.store.tallies import (
    PairTally,
    Score,
    TallyBy,
    added,
    against,
    between,
    by_pair,
    prompts,
    scores_by_group,
    tallies,
)
from arena_robot.server.store.verdicts import (
    ALL,
    Selection,
    counted_verdicts,
    tally_of_verdicts,
    verdicts_version,
)

LABS = 20    # the largest, without each of which there are standings; each is a fit
WORDS = 15    # verbs and objects that are shown, as in the paper's figure 10
READY_S = 2.0    # a small server shows its standings as soon as it listens, a large one says when
INTERVALS = 200    # bootstrap samples of standings that are made anew after every verdict
# Their intervals need no bootstrap: milliseconds also for a million comparisons.
QUICK = frozenset({'bt', 'bt_shrunk', 'davidson'})
_Found = tuple[Standings, list[str]]


class Results:
    """
    Reads verdicts, and keeps what is computed of all of them until another counts.

    After ``open`` all of it is renewed in the background, and no call waits for that: a new
    verdict is part of what ``kept`` gives some seconds later. Standings by slow methods, which may
    take minutes, are renewed in a thread of their own.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._version = ((0, 0), 0)
        self._looked_s = float('-inf')
        self.kept = RenewedValues(self._read_version)
        self.others = RenewedValues(self.kept.version)
        self.kept.always(self._leaderboard, first=True)
        for by in TallyBy:
            self.kept.always(partial(self.tallies, by))
        self.kept.always(self._differences, late=True)

    def open(self) -> None:
        """Renew in the background from now on; small results are there when this returns."""
        self.kept.open()
        self.others.open()
        self.kept.ready(READY_S)

    def close(self) -> None:
        """Stop renewing; can be called twice."""
        self.others.close()
        self.kept.close()

    def renewed(self, method: str, chosen: Selection = ALL) -> RenewedValues:
        """Return where results by a method, of the chosen verdicts, are kept."""
        is_quick = method in {RECOMMENDED, *QUICK} and not chosen.is_part
        return self.kept if is_quick else self.others

    def settle(self) -> bool:
        """Wait until what was asked for has every verdict; tell whether it has."""
        self.forget()
        return self.kept.settle() and self.others.settle()

    def comparisons(self, chosen: Selection = ALL) -> list[Comparison]:
        """Return every chosen verdict that counts: accepted and not withdrawn; oldest first."""
        with self._database.read() as connection:
            return counted_verdicts(connection, chosen)

    def tallies(self, by: TallyBy) -> list[PairTally]:
        """Return every verdict that counts by group and pair."""
        return self._tallied(by).rows

    def scores(self, by: TallyBy) -> dict[str, dict[str, Score]]:
        """Return each policy's score within each group, as :func:`scores_by_group`."""
        return self._tallied(by).scores

    def words(self) -> 'TaskWords':
        """Return the verbs and the objects of all instructions; NotComputed at first."""
        return self.kept.get('words', lambda: TaskWords.of(prompts(self._database)), slow=True,
                             late=True)

    def pooling(self) -> str:
        """Return whether the kinds of robot may be pooled, in words; NotComputed at first."""
        return self.kept.get('pooling', self._pooling, slow=True, late=True)

    def labs(self) -> 'LabWeights':
        """Return how much each institution weighs; NotComputed at first."""
        return self.others.get('labs', lambda: LabWeights.of(self.votes(), self.owners()),
                                slow=True, late=True)

    def met(self, first: str, second: str) -> tuple[Score, dict[str, Score]]:
        """Return the score of ``first`` against ``second``, in all and in each category."""
        return self.kept.get(('met', first, second), lambda: self._met(first, second), slow=True)

    def against(self, policy: str) -> dict[str, Score]:
        """Return the score of a policy against each that it met."""
        return self.kept.get(('against', policy), lambda: against(
            self.tallies(TallyBy.CATEGORY), policy), slow=True)

    def difference(self, first: str, second: str) -> tuple[float, float, float] | None:
        """Return by how much ``first`` is better, by the shrunk posterior."""
        differences = self._differences()
        return differences.between(first, second) if differences else None

    def origins(self) -> dict[str, int]:
        """Return how many verdicts that count passed the relay, and how many are imported."""
        return self._votes().origins

    def origins_of_pair(self, first: str, second: str) -> dict[str, int]:
        """Return the origins of the verdicts between two policies."""
        return self._votes().of_pairs.get(frozenset((first, second)), {})

    def votes(self) -> Comparisons:
        """Return every verdict that counts, as arrays."""
        return self._votes().dated.comparisons

    def dated(self) -> 'DatedVotes':
        """Return every verdict that counts with its day, oldest first."""
        return self._votes().dated

    def owners(self) -> dict[str, str]:
        """Return the number of each policy's owner, as text, by name; imported ones have none."""
        with self._database.read() as connection:
            return policy_owners(connection)

    def posterior(self, candidates: Sequence[PolicyRecord]) -> Posterior | None:
        """Return what Bradley–Terry knows of the candidates; None before the first verdict."""
        place = {record.id: k for k, record in enumerate(candidates)}
        wins = np.zeros((len(candidates),) * 2)
        for (a, b, preference), count in self.kept.get('counts', self._count).items():
            if a in place and b in place:
                share = {'A': 1.0, 'TIE': 0.5, 'B': 0.0}[preference]
                wins[place[a], place[b]] += share * count
                wins[place[b], place[a]] += (1.0 - share) * count
        return posterior_of(wins) if wins.any() else None

    def standings(self, method: str = RECOMMENDED, chosen: Selection = ALL,
                  intervals: int = INTERVALS, slow: bool = True) -> tuple[Standings, list[str]]:
        """
        Return the standings of the policies that can be compared, and the names of the others.

        Raises RankingError when no two can be compared, NotComputed while the first of these
        standings are computed; what is not ``slow`` is then computed at once.
        """
        METHODS.find_named(method)
        if chosen.since:
            chosen.since_ns()    # a bad day is refused, and not kept
        return self.renewed(method, chosen).get(
            ('standings', method, chosen, intervals),
            partial(self._compute, method, chosen, intervals),
            slow=slow)

    def counts_by_name(self) -> dict[tuple[str, str, str], int]:
        """Return how often each verdict fell, by (policy A, policy B, preference)."""
        return self.kept.get('names', self._count_by_name)

    def standings_json(self, method: str, open_source: bool) -> str:
        """Return the standings as `arena rank --json` prints them."""
        chosen, method = Selection(open_source=open_source), method or RECOMMENDED
        standings, others = self.standings(method, chosen,
                                           slow=method not in QUICK or chosen.is_part)
        return json.dumps({**as_json(standings), 'not_comparable': others}, allow_nan=False)

    def counted(self) -> tuple[int, int]:
        """
        Return of how many verdicts the results are, and when the last was accepted (ns).

        Before the first results are there, these are of no verdict.
        """
        try:
            return self._counted()
        except NotComputed:
            return 0, 0

    def forget(self) -> None:
        """Read the verdicts again: one was just stored."""
        with self._lock:
            self._looked_s = float('-inf')
        self.kept.look()
        self.others.look()

    def version(self) -> tuple[int, int]:
        """
        Return what changes with every verdict that counts: how many, and when the last.

        Another process's verdicts are seen within ``LOOK_S`` seconds.
        """
        return self._read_version()[0]

    def _read_version(self) -> tuple[tuple[int, int], int]:
        with self._lock:
            if time.monotonic() - self._looked_s > LOOK_S:
                with self._database.read() as connection:
                    self._version = verdicts_version(connection), category_version(connection)
                self._looked_s = time.monotonic()
            return self._version

    def _votes(self, chosen: Selection = ALL) -> '_Votes':
        return self.kept.get(('votes', chosen), lambda: _Votes.of(self.comparisons(chosen)))

    def _compute(self, method: str, chosen: Selection, intervals: int) -> _Found:
        # The verdicts of a part are not kept: there are many parts.
        votes = _Votes.of(self.comparisons(chosen)) if chosen.is_part else self._votes(chosen)
        ranked, others = rank_comparable(votes.dated.comparisons, method, intervals=intervals,
                                         owners=self.owners())
        diagnostics = ranked.diagnostics
        details = {**diagnostics.details, **votes.basis,
                   'progress': mean_progress(votes.dated.comparisons)}
        if not chosen.is_part:
            needed = self.kept.get(('needed', chosen), lambda: sessions_needed(
                self._votes(chosen).dated.comparisons))
            details |= {'needed': asdict(needed) if needed else None,
                        'fragility': self.kept.get(('fragility', chosen), lambda: fragility_words(
                            fragility(self._votes(chosen).dated.comparisons)))}
        return replace(ranked, diagnostics=replace(diagnostics, details=details)), others

    def _pooling(self) -> str:
        with self._database.read() as connection:
            votes = counted_verdicts(connection, None)
        try:
            return across_robots(Comparisons.from_words(votes), 'bt', intervals=0).words
        except RankingError as error:
            return str(error)

    def _count(self) -> dict[tuple[int, int, str], int]:
        with self._database.read() as connection:
            return tally_of_verdicts(connection)

    def _count_by_name(self) -> dict[tuple[str, str, str], int]:
        counts = self.kept.get('counts', self._count)
        with self._database.read() as connection:
            names = policy_names(connection)
        return {(names[a], names[b], word): n for (a, b, word), n in counts.items()}

    def _leaderboard(self) -> None:
        """Get what the first page shows: the number of verdicts last, when the others have it."""
        self.counts_by_name()
        with suppress(RankingError):    # kept, and raised where somebody asks
            self.standings()
        self.origins()
        self._counted()

    def _tallied(self, by: TallyBy) -> '_Grouped':
        return self.kept.get(by, lambda: _Grouped.of(tallies(self._database, by)), slow=True)

    def _counted(self) -> tuple[int, int]:
        return self.kept.get('version', self.version, slow=True)

    def _met(self, first: str, second: str) -> tuple[Score, dict[str, Score]]:
        pairs = self._tallied(TallyBy.CATEGORY).pairs
        scores = between(pairs.get(frozenset((first, second)), []), first, second)
        total = added(scores.values())
        for score in (total, *scores.values()):
            score.compute()
        return total, scores

    def _differences(self) -> Differences | None:
        """Return the differences of all pairs, None without verdicts; NotComputed at first."""
        return self.kept.get('differences', lambda: Differences.of(
            self.votes(), shrunk=True) if len(self.votes()) else None, slow=True, late=True)


@dataclass(frozen=True)
class TaskWords:
    """The most frequent verbs and objects of instructions, with how many sessions have them."""

    verbs: tuple[tuple[str, int], ...]
    objects: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> 'TaskWords':
        """Return them for instructions with their numbers of sessions."""
        verbs: Counter[str] = Counter()
        things: Counter[str] = Counter()
        for prompt, count in counts.items():
            verbs.update(dict.fromkeys((verb for _, verb in matched(prompt)), count))
            things.update(dict.fromkeys(objects(prompt), count))
        return cls(tuple(verbs.most_common(WORDS)), tuple(things.most_common(WORDS)))


@dataclass(frozen=True)
class LabWeights:
    """
    How much each institution weighs: (name, sessions), and the standings without it or None.

    Only the largest ``LABS`` are left out in turn. ``effective`` is how many institutions of
    equal size are spread as much: 1/Σ share².
    """

    labs: tuple[tuple[str, int, Standings | None], ...]
    effective: float

    @classmethod
    def of(cls, votes: Comparisons, owners: Mapping[str, str]) -> 'LabWeights':
        """Return them, largest institution first."""
        counts = np.bincount(votes.institution, minlength=len(votes.institutions))
        rows = [(votes.institutions[k], int(counts[k]), _ranked_without(votes, k, owners)
                 if place < LABS else None)
                for place, k in enumerate(np.argsort(-counts, kind='stable')) if counts[k]]
        shares = counts / max(counts.sum(), 1)
        return cls(tuple(rows), float(1 / (shares @ shares)) if len(votes) else 0.0)


def met(votes: Comparisons) -> Comparisons:
    """Return comparisons without the policies that are in none of them."""
    return votes.only([votes.items[k] for k in np.flatnonzero(votes.appearances())])


def _ranked_without(votes: Comparisons, lab: int, owners: Mapping[str, str]) -> Standings | None:
    try:
        return rank_comparable(met(votes.take(votes.institution != lab)), RECOMMENDED,
                               intervals=INTERVALS, owners=owners)[0]
    except RankingError:    # nobody is left to compare
        return None


@dataclass(frozen=True)
class DatedVotes:
    """
    Comparisons, oldest first, with the ``days`` (M,) (UTC) of their sessions.

    ``marks`` (M,) are numbers that change with session, policies, preference and evaluator.
    """

    comparisons: Comparisons
    days: NDArray[np.str_]
    marks: NDArray[np.int64]

    @classmethod
    def of(cls, words: Sequence[Comparison]) -> 'DatedVotes':
        """Return comparisons, which come oldest first, as arrays."""
        days = np.array([row.created[:10] for row in words], dtype='U10')
        marks = [hash((row.session_id, row.a, row.b, row.preference, row.evaluator))
                 for row in words]
        return cls(Comparisons.from_words(words), days, np.array(marks, dtype=np.int64))

    def up_to(self, day: str) -> tuple[Comparisons, Hashable]:
        """Return the comparisons up to the end of a day, and what changes with them."""
        count = int(np.searchsorted(self.days, day, side='right'))
        return met(self.comparisons.take(np.arange(count))), hash(self.marks[:count].tobytes())


@dataclass(frozen=True)
class _Votes:
    """Every verdict that counts, and where they come from, in all and by pair."""

    dated: DatedVotes
    basis: dict[str, Any]
    origins: dict[str, int]
    of_pairs: dict[frozenset[str], dict[str, int]]

    @classmethod
    def of(cls, words: Sequence[Comparison]) -> '_Votes':
        pairs = Counter((row.a, row.b, row.origin) for row in words)
        of_pairs: dict[frozenset[str], dict[str, int]] = {}
        for (a, b, origin), count in sorted(pairs.items()):
            known = of_pairs.setdefault(frozenset((a, b)), {})
            known[origin] = known.get(origin, 0) + count
        by_origin = origins(words)
        basis = {'institutions': len({row.institution for row in words} - {''}),
                 'newest': max((row.created for row in words), default=''),
                 'origins': by_origin, 'not_relayed': not_relayed_of(words)}
        return cls(DatedVotes.of(words), basis, by_origin, of_pairs)


@dataclass(frozen=True)
class _Grouped:
    """Tallies, the scores of each group with their intervals, and the tallies of each pair."""

    rows: list[PairTally]
    scores: dict[str, dict[str, Score]]
    pairs: dict[frozenset[str], list[PairTally]]

    @classmethod
    def of(cls, rows: list[PairTally]) -> '_Grouped':
        scores = scores_by_group(rows)
        for score in (score for group in scores.values() for score in group.values()):
            score.compute()
        return cls(rows, scores, by_pair(rows))
