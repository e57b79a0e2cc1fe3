"""How many more sessions are needed is told with an interval that holds."""

import dataclasses

import numpy as np
import pytest
from ranking_worlds import World, scored_votes, world
from scipy.integrate import quad
from scipy.stats import beta, binom

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.intervals.needed import (
    SessionsNeeded,
    evidence,
    first_known,
    log_capital,
    needed_words,
    progress_verdicts,
    sessions_needed,
    win_interval,
)
from arena_robot.ranking.methods import rank_comparable

LOOKS = 60 * np.geomspace(1, 40, 9)


def first_seen(votes):
    """Return the first of the looks after which one policy alone may be first."""
    for upto in LOOKS.astype(int):
        standings, _ = rank_comparable(votes.take(np.arange(upto)), 'bt', intervals=1)
        if (standings.rank_high == 1).any():
            return upto - 60
    return np.inf


def test_nine_of_ten_intervals_contain_what_the_future_needs():
    inside, seen = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        place = world('bt', 4, rng)
        votes = place.comparisons(2400, rng)
        forecast = sessions_needed(votes.take(np.arange(60)))
        needed = first_seen(votes)
        seen.append(needed)
        # The looks are apart by a factor of 1.6.
        inside.append(forecast.low <= needed and needed <= 1.6 * forecast.high + 36)
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
    assert 'Until which 2 policies are ahead of the others is known at 95 %, about 1000 ' in words
    assert '(in 9 of 10 cases 10 to more than 20000)' in words
    words = needed_words(SessionsNeeded('first', 1, 517, False, 2345, np.inf, np.inf))
    assert 'at 95 %, more than 100000 more sessions are needed (in 9 of 10' in words
    assert 'cases 2000 to more than 100000)' in words
    near = needed_words(SessionsNeeded('first', 1, 100, False, 123, 157.2, 233))
    assert 'about 160 more sessions are needed (in 9 of 10 cases 120 to 230)' in near
    assert needed_words(SessionsNeeded('first', 1, 100, True, 0, 0, 0)) == \
        'Which policy is first is known at 95 %.'


@pytest.mark.parametrize(('abilities', 'names'), [((0.0, 0.0, -1.0), {None}),
                                                  ((2.5, 0.0, -1.0), {'p00'})])
def test_who_is_named_first_at_any_look_is_the_best(abilities, names):
    wrong, last = 0, set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        votes = World(np.array(abilities), by_evaluator=0.5).comparisons(600, rng, evaluators=60)
        named = [first_known(votes.take(np.arange(upto))) for upto in range(60, 601, 60)]
        wrong += any(name not in (None, 'p00') for name in named) if None not in names \
            else any(name is not None for name in named)
        last.add(named[-1])
    assert wrong <= 1
    assert last >= names


def pair(outcomes):
    y = np.asarray(outcomes, dtype=float)
    turned = np.arange(len(y)) % 2 == 1
    return Comparisons.build(np.where(turned, 1, 0), np.where(turned, 0, 1),
                             np.where(turned, 1 - y, y), items=['a', 'b', 'c'])


@pytest.mark.parametrize('prior', [0.5, 1.0, 4.0])
def test_the_capital_is_the_mixture_integral(prior):
    for wins, losses in ((0, 0), (3, 1), (10, 14)):
        integral, _ = quad(lambda p, w=wins, d=losses: (2 * p) ** w * (2 - 2 * p) ** d
                           * beta(prior, prior).pdf(p), 0, 1)
        assert np.exp(log_capital(wins, losses, prior)) == pytest.approx(integral, rel=1e-6)


def test_the_capital_is_a_fair_game_under_no_difference():
    for n in (1, 5, 30):
        wins = np.arange(n + 1)
        mean = binom(n, 0.5).pmf(wins) @ np.exp(log_capital(wins, n - wins))
        assert mean == pytest.approx(1, abs=1e-9)


def test_looking_after_every_vote_errs_no_more_often_than_promised():
    rng = np.random.default_rng(0)
    y = rng.random((3000, 400)) < 0.5
    wins = np.cumsum(y, axis=1)
    losses = np.cumsum(~y, axis=1)
    ever = (log_capital(wins, losses).max(axis=1) >= np.log(20)).mean()
    assert 0.001 < ever <= 0.05
    naive = np.abs(wins - losses) / np.sqrt(wins + losses) > 1.96
    assert naive[:, 20:].any(axis=1).mean() > 0.2, 'what a fixed-sample test would do'


def test_the_confidence_sequence_holds_at_every_look():
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(150):
        wins = np.cumsum(rng.random(120) < 0.7)
        missed += any(not low <= 0.7 <= high for low, high in (
            win_interval(int(w), k + 1 - int(w)) for k, w in enumerate(wins)))
    assert missed <= 0.05 * 150 + 4
    low, high = win_interval(70, 30)
    assert low < 0.7 < high
    assert high - low < 0.35
    assert win_interval(0, 0) == (0.0, 1.0)


def test_a_decision_stands_and_says_when_it_fell():
    weighed = evidence(pair([1] * 8 + [0.5] * 5 + [1, 0, 1]), 'a', 'b')
    assert (weighed.wins, weighed.losses, weighed.ties) == (10, 1, 5)
    assert (weighed.better, weighed.decided_after) == ('a', 8)
    assert weighed.p_value < 0.05
    assert weighed.low > 0.5
    assert np.all(np.diff(weighed.log_e_path[8:13]) == 0), 'ties change nothing'
    turned = evidence(pair([1] * 8 + [0.5] * 5 + [1, 0, 1]), 'b', 'a')
    assert turned.better == 'a'
    assert turned.high == pytest.approx(1 - weighed.low)
    assert turned.log_e == pytest.approx(weighed.log_e)


def test_no_votes_are_no_evidence():
    weighed = evidence(pair([1, 0.5]), 'a', 'c')
    assert (weighed.p_value, weighed.low, weighed.high, weighed.better) == (1, 0, 1, None)
    for bad in ({'second': 'a'}, {'second': 'z'}, {'alpha': 0}, {'prior': 0}):
        with pytest.raises(RankingError):
            evidence(pair([1]), **{'first': 'a', 'second': 'b', **bad})


def test_progress_decides_sooner_than_verdicts_and_errs_no_more_often():
    def after(lead, seed):
        votes = scored_votes(np.array([lead, 0.0]), 200, np.random.default_rng(seed))
        return [evidence(x, 'p00', 'p01').decided_after or 201
                for x in (votes, progress_verdicts(votes))]

    verdicts, progress = np.median([after(1.0, k) for k in range(40)], axis=0)
    assert progress < 0.7 * verdicts
    equal = np.array([after(0.0, k) for k in range(200)]) <= 200
    assert equal.mean(axis=0).max() <= 0.06
    votes = scored_votes(np.zeros(2), 5, np.random.default_rng(0))
    unscored = dataclasses.replace(votes, score_first=np.full(5, np.nan))
    assert len(progress_verdicts(unscored)) == 0


def visits(seed, own, people=40, votes=8, lead=0.0):
    """Evaluators with preferences of their own who come one after another."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), votes)
    taste = rng.normal(lead, own, people)[who]
    y = (rng.random(len(who)) < 1 / (1 + np.exp(-taste))).astype(float)
    return Comparisons.build([0] * len(y), [1] * len(y), y, items=['a', 'b'],
                             evaluator=[f'e{k}' for k in who])


def test_where_evaluators_differ_the_test_by_evaluator_keeps_its_error_rate():
    wrong = {by: np.mean([evidence(visits(seed, 1.0), 'a', 'b', by=by).better is not None
                          for seed in range(100)]) for by in ('session', 'evaluator')}
    assert wrong['session'] > 0.15
    assert wrong['evaluator'] <= 0.06
    winners = [evidence(visits(seed, 1.0, lead=1.0), 'a', 'b', by='evaluator').better
               for seed in range(40)]
    assert winners.count('a') >= 36


def test_evaluators_who_interleave_count_once_each_when_they_are_done():
    votes = visits(1, 0.5, people=3, votes=2)
    shuffled = votes.take(np.array([0, 2, 4, 1, 3, 5]))
    plain, mixed = (evidence(v, 'a', 'b', by='evaluator') for v in (votes, shuffled))
    assert plain.log_e == pytest.approx(mixed.log_e)
    assert mixed.log_e_path[:3].tolist() == [0, 0, 0]
    assert np.isnan(plain.low)


def test_by_evaluator_one_who_judged_much_does_not_name_the_winner():
    runs = [(0, 1.0, 100)] + [(k, 0.0, 5) for k in range(1, 15)]
    y = np.concatenate([np.full(n, said) for _, said, n in runs])
    who = np.concatenate([np.full(n, f'e{k}') for k, _, n in runs])
    votes = Comparisons.build([0] * len(y), [1] * len(y), y, items=['p', 'q'],
                              evaluator=list(who))
    weighed = evidence(votes, 'p', 'q', by='evaluator')
    assert (weighed.wins, weighed.losses) == (100, 70)
    assert weighed.p_value < 0.05
    assert weighed.better == 'q'
    assert evidence(votes, 'q', 'p', by='evaluator').better == 'q'
