"""How many more sessions are needed is told with an interval that holds."""

import numpy as np
import pytest
from ranking_worlds import World, world

from arena_robot.core.errors import RankingError
from arena_robot.ranking.intervals.needed import (
    SessionsNeeded,
    first_known,
    needed_words,
    sessions_needed,
)
from arena_robot.ranking.methods import rank_comparable

LOOKS = 60 * np.geomspace(1, 40, 9)


def first_seen(votes):
    """Return the first of the looks after which one policy alone may be first."""
    for upto in LOOKS.astype(int):
        found, _ = rank_comparable(votes.take(np.arange(upto)), 'bt', intervals=1)
        if (found.rank_high == 1).any():
            return upto - 60
    return np.inf


def test_nine_of_ten_intervals_contain_what_the_future_needs():
    inside, seen = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        place = world('bt', 4, rng)
        votes = place.comparisons(2400, rng)
        told = sessions_needed(votes.take(np.arange(60)))
        needed = first_seen(votes)
        seen.append(needed)
        # The looks are apart by a factor of 1.6.
        inside.append(told.low <= needed and needed <= 1.6 * told.high + 36)
    assert np.mean(inside) >= 0.8
    assert 2 < np.isfinite(seen).sum() < 20


def test_more_sessions_are_needed_for_the_order_and_where_evaluators_differ():
    rng = np.random.default_rng(3)
    place = World(np.array([1.5, 0.6, 0.0, -0.4]), by_evaluator=0.8)
    votes = place.comparisons(300, rng, evaluators=12)
    first, top, order = (sessions_needed(votes, goal, 2, cluster='session')
                         for goal in ('first', 'top', 'order'))
    assert first.middle <= order.middle
    assert (first.k, top.k, first.sessions) == (1, 2, 300)
    assert first.low <= first.middle <= first.high
    assert sessions_needed(votes, 'order').middle > order.middle
    clear = World(np.array([3.0, 0, -3.0])).comparisons(600, rng)
    assert sessions_needed(clear).known
    assert sessions_needed(clear).high == 0


def test_what_cannot_be_told_is_not_told():
    votes = World(np.array([1.0, 0.0, -1.0])).comparisons(9, np.random.default_rng(0))
    assert sessions_needed(votes) is None
    assert 'Too few' in needed_words(None)
    with pytest.raises(RankingError, match="'best' with k = 3 of 3 policies; known goals: first"):
        sessions_needed(votes, 'best')
    with pytest.raises(RankingError, match='k is less'):
        sessions_needed(votes, 'top', 3)


def test_the_words_round_and_say_what_is_beyond():
    words = needed_words(SessionsNeeded('top', 2, 100, False, 12, 1234.4, np.inf))
    assert 'Until which 2 policies are ahead of the others is known at 95 %, about 1200 ' in words
    assert '(in 9 of 10 cases 12 to more than 20000)' in words
    assert needed_words(SessionsNeeded('first', 1, 100, True, 0, 0, 0)) == \
        'Which policy is first is known at 95 %.'


@pytest.mark.parametrize(('abilities', 'names'), [((0.0, 0.0, -1.0), {None}),
                                                  ((2.5, 0.0, -1.0), {'p00'})])
def test_who_is_named_first_at_any_look_is_the_best(abilities, names):
    wrong, last = 0, set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        votes = World(np.array(abilities), by_evaluator=0.5).comparisons(600, rng, evaluators=60)
        told = [first_known(votes.take(np.arange(upto))) for upto in range(60, 601, 60)]
        wrong += any(name not in (None, 'p00') for name in told) if None not in names \
            else any(name is not None for name in told)
        last.add(told[-1])
    assert wrong <= 1
    assert last >= names
