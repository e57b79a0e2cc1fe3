"""Counted verdicts of pairs, by institution or by category."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import sqlalchemy as sa

from arena_robot.core.episode import Preference
from arena_robot.ranking.intervals.shares import effective_count, share_interval
from arena_robot.server.store.database import Database
from arena_robot.server.store.schema import in_pool, policies, sessions
from arena_robot.server.store.verdicts import that_counts


class TallyBy(str, Enum):
    """What sessions are grouped by."""

    INSTITUTION = 'institution'
    CATEGORY = 'category'


@dataclass(frozen=True)
class PairTally:
    """How often an evaluator gave a pair, in slots A and B, a verdict within one group."""

    group: str
    policy_a: str
    policy_b: str
    preference: Preference
    count: int
    evaluator: str = ''


@dataclass
class Score:
    """Wins, ties and losses, also by evaluator; ``share`` counts a tie half."""

    wins: int = 0
    ties: int = 0
    losses: int = 0
    people: dict[str, tuple[int, int, int]] = field(default_factory=dict, compare=False)

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Return the interval of the share, as :func:`share_interval`; computed once."""
        return share_interval(self.people)

    @cached_property
    def effective(self) -> float:
        """Return how many independent comparisons tell as much; computed once."""
        return effective_count(self.people)

    def compute(self) -> None:
        """Compute interval and effective count now, and not when somebody asks for them."""
        _ = self.interval, self.effective

    @property
    def count(self) -> int:
        """Return the number of comparisons."""
        return self.wins + self.ties + self.losses

    @property
    def share(self) -> float:
        """Return the share of comparisons won; NaN without any."""
        return (self.wins + self.ties / 2) / self.count if self.count else float('nan')


def tallies(database: Database, by: TallyBy) -> list[PairTally]:
    """Return every verdict that counts, added up by group and pair."""
    a, b, group = policies.alias('a'), policies.alias('b'), sessions.c[by.value]
    query = sa.select(
        group.label('what'), a.c.name.label('a'), b.c.name.label('b'), sessions.c.preference,
        sessions.c.evaluator_id, sa.func.count().label('n')).select_from(
        sessions.join(a, sessions.c.policy_a_id == a.c.id)
        .join(b, sessions.c.policy_b_id == b.c.id)).where(that_counts(), in_pool()).group_by(
        group, a.c.name, b.c.name, sessions.c.preference, sessions.c.evaluator_id)
    words = {member.value: member for member in Preference}
    with database.read() as connection:
        return [PairTally(what or '', a, b, words[said], count, str(person))
                for what, a, b, said, person, count in connection.execute(query)]


def prompts(database: Database) -> dict[str, int]:
    """Return how many sessions that count have each instruction."""
    query = sa.select(sessions.c.prompt, sa.func.count()).where(
        that_counts(), in_pool()).group_by(sessions.c.prompt)
    with database.read() as connection:
        return {prompt: int(count) for prompt, count in connection.execute(query)}


def scores_by_group(rows: Iterable[PairTally]) -> dict[str, dict[str, Score]]:
    """Return each policy's score within each group; groups with more comparisons first."""
    groups: dict[str, dict[str, Score]] = {}
    for row in rows:
        policies_of = groups.setdefault(row.group, {})
        first = policies_of.setdefault(row.policy_a, Score())
        second = policies_of.setdefault(row.policy_b, Score())
        _add(first, row, Preference.A)
        _add(second, row, Preference.B)
    order = sorted(groups, key=lambda g: (-sum(s.count for s in groups[g].values()), g))
    return {group: dict(sorted(groups[group].items(), key=lambda item: (-item[1].share, item[0])))
            for group in order}


def between(rows: Iterable[PairTally], first: str, second: str) -> dict[str, Score]:
    """Return the score of ``first`` against ``second`` within each group where they met."""
    out: dict[str, Score] = {}
    for row in rows:
        if (row.policy_a, row.policy_b) == (first, second):
            _add(out.setdefault(row.group, Score()), row, Preference.A)
        elif (row.policy_a, row.policy_b) == (second, first):
            _add(out.setdefault(row.group, Score()), row, Preference.B)
    return dict(sorted(out.items(), key=lambda item: (-item[1].count, item[0])))


def against(rows: Iterable[PairTally], policy: str) -> dict[str, Score]:
    """Return the score of a policy against each that it met, the most frequent first."""
    scores: dict[str, Score] = {}
    for row in rows:
        if row.policy_a == policy:
            _add(scores.setdefault(row.policy_b, Score()), row, Preference.A)
        elif row.policy_b == policy:
            _add(scores.setdefault(row.policy_a, Score()), row, Preference.B)
    return dict(sorted(scores.items(), key=lambda item: (-item[1].count, item[0])))


def added(scores: Iterable[Score]) -> Score:
    """Return the sum of scores, evaluator by evaluator."""
    total = Score()
    for score in scores:
        total.wins, total.ties, total.losses = (
            total.wins + score.wins, total.ties + score.ties, total.losses + score.losses)
        for name, (wins, ties, losses) in score.people.items():
            before = total.people.get(name, (0, 0, 0))
            total.people[name] = before[0] + wins, before[1] + ties, before[2] + losses
    return total


def by_pair(rows: Iterable[PairTally]) -> dict[frozenset[str], list[PairTally]]:
    """Return the tallies of each pair of policies, whichever slot they had."""
    out: dict[frozenset[str], list[PairTally]] = {}
    for row in rows:
        out.setdefault(frozenset((row.policy_a, row.policy_b)), []).append(row)
    return out


def _add(score: Score, tally: PairTally, mine: Preference) -> None:
    wins = ties = losses = 0
    if tally.preference is Preference.TIE:
        ties = tally.count
    elif tally.preference is mine:
        wins = tally.count
    else:
        losses = tally.count
    score.wins, score.ties, score.losses = (
        score.wins + wins, score.ties + ties, score.losses + losses)
    before = score.people.get(tally.evaluator, (0, 0, 0))
    score.people[tally.evaluator] = before[0] + wins, before[1] + ties, before[2] + losses
