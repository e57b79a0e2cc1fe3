"""The standings of earlier days are those of the sessions up to then."""

import dataclasses

import numpy as np

from arena_robot.core.episode import Comparison, Preference
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.server.renewed_values import RenewedValues
from arena_robot.server.results import INTERVALS, DatedVotes, Results
from arena_robot.server.store.database import Database
from arena_robot.web.site.history import History, curves

POLICIES = ('p', 'q', 'r', 'late')


def verdicts(count=120, days=6):
    rng = np.random.default_rng(0)
    for k in range(count):
        a, b = rng.choice(4 if k >= 110 else 3, 2, replace=False)
        yield Comparison(f's{k}', POLICIES[a], POLICIES[b], list(Preference)[rng.integers(3)],
                         evaluator=f'person {k % 7}', institution=f'lab {k % 3}', prompt='lift it',
                         created=f'2026-01-{1 + k * days // count:02}T00:00:00.000+00:00')


class Stored:
    """Results of given verdicts."""

    def __init__(self, words):
        self.words, self.version = words, 0
        self.kept = RenewedValues(lambda: self.version)

    def dated(self):
        return DatedVotes.of(self.words)


def test_a_days_standings_are_those_of_its_verdicts_alone():
    words = list(verdicts())
    for day in History(Stored(words)).past():
        till = [one for one in words if one.created[:10] <= day.day]
        alone, _ = rank_comparable(Comparisons.from_words(till), RECOMMENDED, intervals=INTERVALS)
        assert (day.sessions, day.standings.items) == (len(till), alone.items)
        for name in ('scores', 'low', 'high', 'ranks'):
            np.testing.assert_allclose(getattr(day.standings, name), getattr(alone, name))
    assert 'late' in day.standings.items
    assert 'late' not in History(Stored(words)).past()[0].standings.items


def test_where_it_is_too_early_nothing_is_drawn():
    past = History(Stored(list(verdicts(3, 3)))).past()
    assert [one.sessions for one in past] == [1, 2, 3]
    assert curves(past) == {}


def test_a_day_is_computed_again_when_one_of_its_verdicts_is_another():
    stored = Stored(list(verdicts()))
    history = History(stored)
    before = history.past()
    stored.words[50] = dataclasses.replace(
        stored.words[50], preference={Preference.A: Preference.B}.get(
            stored.words[50].preference, Preference.A))
    stored.version += 1
    after = history.past()
    same = [one is two for one, two in zip(before, after, strict=True)]
    assert same == [True, True, False, False, False, False]


def test_standings_are_renewed_before_what_pages_add(tmp_path):
    order = []
    with Database(f'sqlite:///{tmp_path}/arena.db') as database:
        results = Results(database)
        results.kept.always(lambda: order.append('of a page'))
        make = results.kept.get
        results.kept.get = lambda key, *more, **slow: order.append(key) or make(
            key, *more, **slow)
        results.open()
        try:
            assert results.kept.settle()
        finally:
            results.close()
    assert order.index('names') < order.index('of a page')
