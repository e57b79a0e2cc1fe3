"""Sections 1 to 4 from numbers alone: overview, comparisons, strengths, weaknesses."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from arena_robot.core.errors import RankingError
from arena_robot.core.task_categories import CATEGORIES
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import place_words, stated_interval
from arena_robot.reports.policy_report.checking import ReportChecker, relation_of
from arena_robot.reports.policy_report.material import (
    ReportMaterial,
    ReportSession,
    SampleMean,
    compared,
)
from arena_robot.reports.policy_report.statements import (
    Citation,
    Claim,
    Relation,
    ReportSection,
    Statement,
)
from arena_robot.reports.policy_report.topics import DOING_BADLY, DOING_WELL, support

CITED = 3    # sessions of a claim, the clearest
_TOPIC = {1.0: DOING_WELL, 0.0: DOING_BADLY}
_WORDS = {Relation.BETTER: 'was preferred more often than', Relation.WORSE:
          'was preferred less often than', Relation.EQUAL: 'did about as well as'}


class PerformanceSections:
    """Writes the sections of one policy; ``checker`` measures what they state."""

    def __init__(self, checker: ReportChecker, material: ReportMaterial) -> None:
        self._check, self._material = checker, material
        self.policy, self.sessions = checker.policy, checker.sessions
        counted = Counter(s.opponent(self.policy) for s in self.sessions)
        self.opponents = tuple(sorted(counted, key=lambda name: (-counted[name], name)))
        self.categories = [c for c, _ in Counter(
            s.category for s in self.sessions if s.category in CATEGORIES).most_common()]

    def overview(self) -> ReportSection:
        """Return how much there is, how it stands, how far it gets, how it ends."""
        days = [s.created[:10] for s in self.sessions if s.created]
        places = len({s.institution for s in self.sessions} - {''})
        span = f', from {min(days)} to {max(days)}' if days else ''
        statements = [Statement(
            f'{self.policy} was compared in {len(self.sessions)} sessions with '
            f'{_named(self.opponents, 9)}{span}'
            + (f', at {places} institution{"s" * (places > 1)}.' if places else '.'),
            short=f'{len(self.sessions)} sessions against {len(self.opponents)} policies')]
        if self.opponents:
            statements.append(self._compared(self.opponents, '', ', over all categories'))
        return ReportSection('Policy Overview', tuple(
            statements + self._standing() + self._progress()
            + [Statement(line) for line in self._times() if line]))

    def comparative(self) -> ReportSection:
        """Return a statement per category and per opponent."""
        by_category = [self._compared(self.opponents, category)
                       for category in self.categories]
        by_opponent = [self._compared((opponent,), '') for opponent in self.opponents]
        pairs = [self._compared((opponent,), category) for category in self.categories
                 for opponent in self.opponents
                 if relation_of(self._check.measured((opponent,), category))]
        return ReportSection('Comparative Performance',
                             tuple(by_category + by_opponent + pairs))

    def strengths(self) -> ReportSection:
        """Return where the policy is better, with sessions that it won."""
        return ReportSection('Strengths', self._side(Relation.BETTER, 1.0))

    def weaknesses(self) -> ReportSection:
        """Return where the policy is worse, with sessions that it lost."""
        return ReportSection('Weaknesses', self._side(Relation.WORSE, 0.0))

    def _compared(self, opponents: tuple[str, ...], category: str, more: str = '') -> Statement:
        finding = self._check.measured(opponents, category)
        relation, whom = relation_of(finding), _whom(opponents)
        where = f'{category}: ' if category else ''
        if relation is None:
            return Statement(f'{where}{self.policy} against {whom}{more}: {finding.words()}; '
                             'these sessions do not tell which is better.', category=category)
        claim = Claim(self.policy, opponents, category, relation)
        return Statement(claim_words(claim, more), claim, category=category)

    def _side(self, relation: Relation, won: float) -> tuple[Statement, ...]:
        statements = []
        for opponents, category in [*((self.opponents, c) for c in self.categories),
                                    *(((opponent,), '') for opponent in self.opponents)]:
            if opponents and relation_of(self._check.measured(opponents, category)) is relation:
                claim = Claim(self.policy, opponents, category, relation)
                statements.append(Statement(
                    claim_words(claim), claim, self._examples(opponents, category, won),
                    category, topic=_TOPIC[won]))
        statements += self._far(relation)
        return tuple(statements) or (Statement(
            f'In no category and against no opponent do these sessions show that {self.policy} '
            f'is {relation.value}.', short=f'{relation.value} nowhere by these sessions',
            citations=self._examples(self.opponents, '', won),
            topic=_TOPIC[won]),)

    def _far(self, relation: Relation) -> list[Statement]:
        """Return the categories where the progress differs clearly from that of the others."""
        statements = []
        for category in self.categories:
            gap = SampleMean.of([mine - theirs for s in self.sessions if s.category == category
                                 for mine, theirs in compared(s, self.policy)])
            if gap.clear and (gap.mean > 0) is (relation is Relation.BETTER):
                statements.append(Statement(
                    f'{category}: progress differs from that of the other policy in the same '
                    f'session by {gap.words(signed=True)} points of 100.', category=category,
                    short=f'progress in {category} {100 * gap.mean:+.0f}',
                    topic=_TOPIC[float(gap.mean > 0)],
                    citations=self._examples(self.opponents, category, float(gap.mean > 0))))
        return statements

    def _examples(self, opponents: Sequence[str], category: str, won: float,
                  ) -> tuple[Citation, ...]:
        """
        Return sessions that were won or lost, the clearest first.

        Those come first whose words say of the policy that it did well, or badly; others are cited
        without a quote.
        """
        topic = _TOPIC[won]
        fitting = [s for s in self.sessions if s.won(self.policy) == won
                   and s.opponent(self.policy) in opponents and category in ('', s.category)]
        quotes = {s.session_id: support(s, s.slot(self.policy), topic) for s in fitting}
        fitting.sort(key=lambda s: (not quotes[s.session_id], -_apart(s, self.policy),
                                    s.session_id))
        return tuple(Citation(s.session_id, quotes[s.session_id]) for s in fitting[:CITED])

    def _standing(self) -> list[Statement]:
        every, names = self._material.sessions, self._material.policies()
        place = {name: k for k, name in enumerate(names)}
        votes = Comparisons.build(
            [place[s.policies['A']] for s in every], [place[s.policies['B']] for s in every],
            [s.won(s.policies['A']) for s in every], items=names,
            evaluator=[s.evaluator for s in every])
        try:
            standings, _ = rank_comparable(votes, RECOMMENDED, intervals=1)
        except RankingError:
            return []
        if self.policy not in standings.items:
            return []
        k = standings.items.index(self.policy)
        interval = stated_interval(standings, k)
        rank = f'{place_words(standings, k)} of {len(standings.items)}'
        return [Statement(f'In the standings of all {len(votes)} sessions ({RECOMMENDED}): rank '
                          f'{rank}, score {standings.scores[k]:.2f} ({interval}).',
                          short=f'rank {rank}')]

    def _progress(self) -> list[Statement]:
        pairs = [pair for s in self.sessions for pair in compared(s, self.policy)]
        if not pairs:
            return []
        mine, gap = SampleMean.of([a for a, _ in pairs]), SampleMean.of([a - b for a, b in pairs])
        done = sum(a == 1.0 for a, _ in pairs)
        return [Statement(
            f'Mean progress: {mine.words()}, of 100; to the other policy of the same session '
            f'{gap.words(signed=True)}. It finished the task in {done} of {len(pairs)} rollouts.',
            short=f'mean progress {100 * mine.mean:.0f} of 100')]

    def _times(self) -> list[str]:
        slots = [(s, s.slot(self.policy)) for s in self.sessions]
        lines = []
        seconds = [s.seconds[k] for s, k in slots if k in s.seconds]
        if seconds:
            lines.append(f'A rollout took {np.mean(seconds):.0f} s on average '
                         f'({len(seconds)} rollouts).')
        waits = [s.latency_s[k] for s, k in slots if k in s.latency_s]
        if waits:
            lines.append(f'An inference took {1e3 * np.mean(waits):.0f} ms on average '
                         f'({len(waits)} rollouts).')
        shares = [s.waited[k] for s, k in slots if k in s.waited]
        if shares:
            lines.append(f'The arm waited for the policy in {100 * np.mean(shares):.0f} % of the '
                         f'time ({len(shares)} rollouts).')
        ends = Counter(s.ends[k] for s, k in slots if k in s.ends)
        if ends:
            lines.append('Rollouts ended: ' + ', '.join(
                f'{word} {count}' for word, count in ends.most_common()) + '.')
        audits = [s.audits[k]['ppl'] for s, k in slots if 'ppl' in s.audits.get(k, {})]
        if audits:
            lines.append(f'Directness by the audit (PPL): {SampleMean.of(audits).words()}.')
        return lines


def claim_words(claim: Claim, more: str = '') -> str:
    """Return the sentence of a claim."""
    where = f'{claim.category}: ' if claim.category else ''
    return (f'{where}{claim.policy} {_WORDS[claim.relation]} {_whom(claim.opponents)}{more}.')


def _whom(opponents: Sequence[str]) -> str:
    return opponents[0] if len(opponents) == 1 else f'the {len(opponents)} others'


def _apart(session: ReportSession, policy: str) -> float:
    return max((abs(a - b) for a, b in compared(session, policy)), default=0.0)


def _named(names: Sequence[str], most: int) -> str:
    shown = ', '.join(names[:most]) or 'nobody'
    return shown if len(names) <= most else f'{shown} and {len(names) - most} more'
