import numpy as np
import pytest

from arena_robot.core.errors import DataError
from arena_robot.ranking.rollouts import arena_tables
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
