from pathlib import Path

import numpy as np
import pytest

from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit
from arena_robot.ranking.counts import count_pairs, groups, require_connected, require_finite
from arena_robot.ranking.methods import (
    METHODS,
    method,
    placeable,
    rank,
    rank_comparable,
)
from arena_robot.ranking.rollouts import arena_tables
from arena_robot.ranking.standings import as_json, competition_ranks, standings
from arena_robot.records.roboarena_files import read_tables

SESSIONS = """session_uuid,institution,evaluator,valid,preference,policy_a,policy_b,feedback_text
s1,X,eve,1,A,red,blue,"two
lines"
s2,X,ann,1,tie,blue,green,
s3,Y,ann,0,B,red,green,
s4,Y,ann,1,,red,green,
s5,Y,eve,1,B,green,red,
"""
EPISODES = """session_uuid,policy,partial_success,letter
s1,red,0.75,A
s1,blue,0.25,
s1,green,1.0,C
s2,blue,,A
s3,red,0.5,A
s1,grey,0.9,D
"""


def made(rows, n=None, **more):
    i, j, y = zip(*rows, strict=True)
    items = [f'p{k}' for k in range(n or max(max(i), max(j)) + 1)]
    return Comparisons.build(i, j, y, items=items, **more)


@pytest.mark.parametrize(('change', 'said'), [
    ({'first': [0, 3]}, 'indices must be 0 to 2'),
    ({'first': [0, -1]}, 'indices must be 0 to 2'),
    ({'first': [0.5, 1.0]}, 'whole numbers'),
    ({'second': [0, 2]}, 'p0 with itself'),
    ({'outcome': [1, 0.7]}, 'outcome 0.7'),
    ({'outcome': [1, float('nan')]}, 'outcome nan'),
    ({'outcome': [1]}, 'differ in length'),
    ({'weight': [1, -1]}, 'weight -1'),
    ({'weight': [1, float('nan')]}, 'weight nan'),
    ({'items': ['p0', 'p0', 'p2']}, 'named twice')])
def test_bad_comparisons_are_refused_with_a_reason(change, said):
    good = {'first': [0, 1], 'second': [1, 2], 'outcome': [1, 0.5], 'items': ['p0', 'p1', 'p2']}
    Comparisons.build(**good)
    with pytest.raises(RankingError, match=said):
        Comparisons.build(**{**good, **change})


def test_arrays_cannot_be_written_to():
    votes = made([(0, 1, 1), (1, 2, 0)])
    for array in (votes.first, votes.outcome, votes.take(np.array([0])).weight,
                  votes.only(['p1', 'p2']).first):
        with pytest.raises(ValueError, match='read-only'):
            array[0] = 0


def test_only_keeps_the_order_asked_for_and_names_what_is_unknown():
    votes = made([(0, 1, 1), (1, 2, 0), (2, 0, 0.5)])
    part = votes.only(['p2', 'p1'])
    assert part.items == ('p2', 'p1')
    assert (part.first.tolist(), part.second.tolist(), part.outcome.tolist()) == ([1], [0], [0])
    with pytest.raises(RankingError, match='unknown or twice: p9'):
        votes.only(['p0', 'p9'])


def test_words_of_the_core_become_comparisons():
    votes = Comparisons.from_words([
        Comparison('s1', 'b', 'a', Preference.B, 0.2, 0.9, 'eve', 'lab'),
        Comparison('s2', 'a', 'c', Preference.TIE, evaluator='ann', institution='lab')])
    assert votes.items == ('a', 'b', 'c')
    assert votes.first.tolist() == [1, 0]
    assert votes.outcome.tolist() == [0, 0.5]
    assert votes.evaluators == ('eve', 'ann')
    assert votes.score_second[0] == 0.9
    assert np.isnan(votes.score_first[1])
    assert Comparisons.from_words([], ['a', 'b']).n == 2


def test_equal_scores_share_the_better_rank():
    assert competition_ranks([3, 1, 3, 2]).tolist() == [1, 4, 1, 3]
    assert competition_ranks([0.1 + 0.2, 0.3, 0]).tolist() == [1, 1, 3]
    assert competition_ranks([]).tolist() == []
    votes = made([(0, 1, 0.5)])
    shown = standings('x', votes, Fit(np.zeros(2), np.zeros(2), Diagnostics()))
    assert shown.order == [0, 1]
    assert shown.counts.tolist() == [1, 1]


def test_counts_do_not_depend_on_the_order_of_writing():
    forth = count_pairs(made([(0, 1, 1), (1, 0, 1), (0, 1, 0.5), (2, 1, 0)]))
    back = count_pairs(made([(1, 0, 0), (0, 1, 0), (1, 0, 0.5), (1, 2, 1)]))
    for name in ('low', 'high', 'wins', 'losses', 'ties'):
        assert getattr(forth, name).tolist() == getattr(back, name).tolist()
    assert forth.wins.tolist() == [1, 1]
    assert forth.losses.tolist() == [1, 0]
    assert forth.sufficient == 6


def test_sparse_and_dense_counting_agree(monkeypatch):
    rng = np.random.default_rng(3)
    i = rng.integers(0, 12, 300)
    votes = Comparisons.build(i, (i + rng.integers(1, 12, 300)) % 12, rng.integers(0, 3, 300) / 2,
                              weight=rng.random(300))
    dense = count_pairs(votes)
    monkeypatch.setattr('arena_robot.ranking.counts.MOST_CELLS', 0)
    sparse = count_pairs(votes)
    for name in ('low', 'high', 'wins', 'losses', 'ties'):
        np.testing.assert_allclose(getattr(dense, name), getattr(sparse, name))


def test_what_cannot_be_compared_is_named():
    apart = count_pairs(made([(0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1)]))
    assert groups(apart) == [['p0', 'p1'], ['p2', 'p3']]
    with pytest.raises(RankingError, match=r'2 groups .*never compared.*\{p0, p1\}; \{p2, p3\}'):
        require_connected(apart)
    unbeaten = count_pairs(made([(0, 1, 1), (1, 2, 1), (2, 1, 1)]))
    require_connected(unbeaten)
    with pytest.raises(RankingError, match=r'no finite maximum.*\{p1, p2\}; \{p0\}'):
        require_finite(unbeaten)
    with pytest.raises(RankingError, match='no comparison between'):
        require_connected(count_pairs(Comparisons.build([], [], [], items=['a', 'b'])))
    with pytest.raises(RankingError, match='rank 1 policy'):
        require_connected(count_pairs(Comparisons.build([], [], [], items=['a'])))


@pytest.mark.parametrize('name', sorted(
    name for name in METHODS.built_in if not METHODS.find(name).needs_audits))
def test_no_method_answers_silently_what_cannot_be_answered(name):
    apart = made([(0, 1, 1), (1, 0, 1), (2, 3, 1), (3, 2, 1)])
    empty = Comparisons.build([], [], [], items=['a', 'b'])
    alone = Comparisons.build([], [], [], items=['a'])
    for votes, said in ((apart, 'never compared|no scored rollout|no comparison has one'),
                        (empty, 'no comparison|no scored rollout'),
                        (alone, 'at least two|no comp')):
        with pytest.raises(RankingError, match=said):
            rank(votes, name)


@pytest.mark.parametrize('name', sorted(
    name for name in METHODS.built_in if not METHODS.find(name).needs_audits))
def test_constant_votes_are_flagged(name):
    votes = made([(0, 1, 1), (1, 2, 1), (2, 0, 1)] * 4, score_first=[0.9, 0.5, 0.2] * 4,
                 score_second=[0.1, 0.5, 0.7] * 4)
    result = rank(votes, name)
    if name not in ('progress', 'progress_gls'):
        assert any('all 12 votes are the same' in x for x in result.diagnostics.warnings)


def test_the_table_of_methods_is_whole():
    rows = METHODS.rows()
    assert all(row.unit and row.description for row in rows.values())
    assert {name for name, row in rows.items() if row.scores_only} == {'progress', 'progress_gls'}
    page = (Path(__file__).parents[2] / 'docs' / 'ranking.md').read_text(encoding='utf-8')
    assert [name for name in METHODS.built_in if f'`{name}`' not in page] == []
    with pytest.raises(RankingError,
                       match=r"no ranking method 'davison'.*Did you mean 'davidson'"):
        method('davison')
    with pytest.raises(RankingError, match="'elo' does not take"):
        method('elo', buckets=3)


def test_placeable_leaves_out_what_the_method_cannot_place():
    votes = made([(0, 1, 1), (1, 0, 1), (2, 0, 1)], score_first=[0.5, 0.5, np.nan],
                 score_second=[0.1, 0.2, 0.3])
    assert placeable(votes, 'bt') == (['p0', 'p1', 'p2'], [])
    assert placeable(votes, 'bt', exact=True) == (['p0', 'p1'], ['p2'])
    assert placeable(votes, 'elo') == (['p0', 'p1', 'p2'], [])
    assert placeable(votes, 'progress') == (['p0', 'p1'], ['p2'])


@pytest.mark.parametrize('name', ['bt', 'davidson'])
def test_nobody_is_dropped_and_who_won_everything_is_first_without_an_upper_bound(name):
    rows = [(0, 1, 1), (1, 0, 1), (0, 1, 0.5)] * 5 + [(2, 0, 1), (2, 1, 1)] * 8 + [(3, 4, 1)]
    votes = made(rows)
    standings, others = rank_comparable(votes, name, intervals=50)
    assert others == []
    assert standings.items[standings.order[0]] == 'p2'
    assert np.isfinite(standings.scores).all()
    assert np.isfinite(standings.low[2])
    assert standings.high[2] == np.inf
    assert standings.too_few.tolist() == [False, False, False, True, True]
    assert np.isnan(standings.low[3:]).all()
    assert as_json(standings)['standings'][0]['unbounded'] == 'above'
    assert np.all(standings.p_better[2, :2] > 0.9)
    assert (standings.rank_low[3:].tolist(), standings.rank_high[3:].tolist()) == ([1, 1], [5, 5])
    warnings = ' '.join(standings.diagnostics.warnings)
    assert 'p2, p3: won every comparison so far' in warnings
    assert 'never compared with each other: {p0, p1, p2}; {p3, p4}' in warnings
    assert 'p3, p4: fewer than 5 comparisons, too few to tell a rank' in warnings
    exact, _ = rank_comparable(made([(0, 1, 1), (1, 0, 1)]), name)
    assert not any('prior' in text for text in exact.diagnostics.warnings)
    assert rank_comparable(votes, name, l2=0.0)[1] == ['p2', 'p3', 'p4']


def read_arena(sessions, episodes=None, policies=None):
    data = read_tables(sessions, episodes)
    return arena_tables(data.comparisons(), data.scored(invalid=True), policies)


@pytest.fixture
def write(tmp_path):
    def put(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path
    return put


def test_only_valid_sessions_with_a_preference_count(write):
    arena = read_arena(write('s.csv', SESSIONS), write('e.csv', EPISODES))
    votes = arena.comparisons
    assert votes.items == ('blue', 'green', 'red')
    assert votes.outcome.tolist() == [1, 0.5, 0]
    assert [votes.items[k] for k in votes.first] == ['red', 'blue', 'green']
    assert votes.evaluators == ('eve', 'ann')
    assert votes.score_first[0] == 0.75
    assert votes.score_second[0] == 0.25, 'joined by policy although the letter is missing'
    assert np.isnan(votes.score_first[1:]).all()


def test_every_rollout_of_the_policies_is_kept_and_marked(write):
    rollouts = read_arena(write('s.csv', SESSIONS), write('e.csv', EPISODES)).rollouts
    assert rollouts.score.tolist() == [0.75, 0.25, 1.0, 0.5]
    assert rollouts.session.tolist() == [0, 0, 0, -1]
    assert rollouts.compared.tolist() == [True, True, False, False]
    np.testing.assert_allclose(rollouts.means(3), [0.25, 1.0, 1.25 / 2])
    assert np.isnan(rollouts.means(3, rollouts.compared)[1])


def test_policies_restrict_comparisons_and_rollouts(write):
    arena = read_arena(write('s.csv', SESSIONS), write('e.csv', EPISODES), ['red', 'blue'])
    assert len(arena.comparisons) == 1
    assert arena.rollouts.score.tolist() == [0.75, 0.25, 0.5]
    with pytest.raises(DataError, match='no counted session has grey; found: blue, green, red'):
        read_arena(write('s.csv', SESSIONS), None, ['red', 'grey'])
