import json

import numpy as np
import pytest
from arena_setting import STATION, Setting, run

from arena_robot.core.episode import Preference
from arena_robot.core.errors import ConfigError
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.ranking.base import Comparisons
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.roboarena_files import read_folder, write_tables
from arena_robot.records.session_file import SessionFile, read_session, write_session
from arena_robot.server.config import AssignmentGoal, Weights
from arena_robot.server.results.exports import export_tables, materialise
from arena_robot.server.sessions.assignment import (
    Aim,
    Candidate,
    NoPair,
    Posterior,
    choose,
    information,
    membership_gain,
    pair_weights,
)
from arena_robot.server.store.browse import Browse
from arena_robot.server.transparency.verify import check_bundle
from arena_robot.session.arena.contract import PROMPT
from arena_robot.web.site.downloads import standings_of


def pool(*requested, owners=None, credit=None):
    n = len(requested)
    return [Candidate(k, (owners or range(n))[k], requested[k], (credit or [True] * n)[k])
            for k in range(n)]


def drawn(candidates, n=4000, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    return [tuple(c.id for c in choose(candidates, rng, **kwargs)) for _ in range(n)]


@pytest.mark.parametrize('count', [0, 1])
def test_a_pair_needs_two(count):
    with pytest.raises(NoPair, match=f'{count} of the live ones'):
        choose(pool(*[0] * count), np.random.default_rng(0))


def test_who_is_a_is_a_fair_coin():
    first = sum(a == 0 for a, _ in drawn(pool(0, 0)))
    # Four standard deviations of 4000 fair flips.
    assert abs(first - 2000) < 4 * 31.7


def test_the_same_seed_draws_the_same_pairs():
    assert drawn(pool(1, 2, 3, 4), 50, seed=7) == drawn(pool(1, 2, 3, 4), 50, seed=7)
    assert drawn(pool(1, 2, 3, 4), 50, seed=7) != drawn(pool(1, 2, 3, 4), 50, seed=8)


def test_little_evaluated_policies_come_first():
    pairs = drawn(pool(0, 20, 20, 20))
    assert sum(0 in pair for pair in pairs) > 0.8 * len(pairs)
    even = drawn(pool(0, 20, 20, 20), weights=Weights(evenness=0.0))
    assert 0.45 < sum(0 in pair for pair in even) / len(even) < 0.55


def test_owners_without_credit_are_asked_for_less_but_not_never():
    pairs = drawn(pool(0, 0, 0, credit=[True, True, False]))
    share = sum(2 in pair for pair in pairs) / len(pairs)
    assert 0.0 < share < 0.3


def test_one_owners_policies_never_meet_while_others_can():
    assert not any(set(pair) == {0, 1} for pair in drawn(pool(0, 0, 9, owners=[1, 1, 2])))
    assert drawn(pool(0, 0, owners=[1, 1]), 10)


def posterior(mean, sd):
    return Posterior(np.array(mean, float), np.diag(np.array(sd, float) ** 2))


def test_information_is_symmetric_and_about_open_orders():
    table = information(posterior([0.0, 0.1, 5.0], [1.0, 1.0, 1.0]))
    assert np.allclose(table, table.T, rtol=1e-12, atol=0.0)
    assert np.all(np.diag(table) == 0.0)
    assert table[0, 1] > 10 * table[0, 2], 'a pair whose order is known tells nothing new'
    settled = information(posterior([0.0, 0.1], [0.01, 0.01]))
    assert settled[0, 1] < table[0, 1]


def test_the_exploration_floor_keeps_every_pair_possible():
    candidates = pool(5, 5, 5)
    weights = Weights(exploration=0.3)
    table = pair_weights(candidates, weights, posterior([0, 0.1, 9], [1, 1, 0.1]))
    assert np.triu(table, 1).sum() == pytest.approx(1.0)
    assert table[0, 2] >= 0.3 / 3 - 1e-12
    assert table[0, 1] > 0.7


def test_a_posterior_without_any_information_falls_back_to_the_plain_weights():
    candidates = pool(0, 0, 0)
    flat = pair_weights(candidates, Weights(), posterior([0, 0, 0], [0, 0, 0]))
    assert np.isfinite(flat).all()
    choose(candidates, np.random.default_rng(0), None, posterior([0, 0, 0], [0, 0, 0]))


@pytest.mark.parametrize('goal', list(AssignmentGoal))
def test_every_goal_keeps_every_pair_possible_and_no_pair_of_one_owner(goal):
    candidates = pool(3, 90, 90, 90, 90, owners=[0, 1, 2, 3, 3])
    known = posterior([0, 3, 2.8, -1, -1.2], [1, 0.2, 0.2, 0.2, 0.2])
    table = pair_weights(candidates, Weights(), known, Aim(goal, top_k=2))
    assert np.allclose(table, table.T)
    assert np.triu(table, 1).sum() == pytest.approx(1.0)
    assert table[3, 4] == 0.0
    assert (table[np.triu_indices(4, 1)] > 0).all()


def test_each_goal_chooses_the_pairs_that_matter_for_it():
    candidates = pool(90, 90, 90, 90, 90)
    known = posterior([3, 2.9, 0, -0.1, -3], [0.3] * 5)
    of = {goal: pair_weights(candidates, Weights(), known, Aim(goal, top_k=3))
          for goal in AssignmentGoal}
    assert of[AssignmentGoal.TOP1][0, 1] > 0.8
    assert of[AssignmentGoal.TOPK][2, 3] > 0.8
    assert of[AssignmentGoal.ORDER][0, 1] == pytest.approx(of[AssignmentGoal.ORDER][2, 3], rel=0.2)
    late = pool(0, 90, 90, 90, 90)
    placed = pair_weights(late, Weights(), known, Aim(AssignmentGoal.NEWCOMER))
    assert placed[0].sum() > 0.9
    with pytest.raises(ConfigError, match='top_k must be at least 1'):
        Aim(top_k=0)


def test_the_search_for_the_first_takes_a_hundred_policies_and_a_posterior_without_any_doubt():
    rng = np.random.default_rng(0)
    gain = membership_gain(posterior(rng.normal(size=100), rng.uniform(0.1, 1, 100)), 1)
    assert np.isfinite(gain).all()
    assert gain.max() > 0
    sure = pair_weights(pool(1, 1, 1), Weights(), posterior([9, 0, -9], [0, 0, 0]),
                        Aim(AssignmentGoal.TOP1))
    assert np.isfinite(sure).all()


def test_a_pair_is_chosen_from_the_first_verdict_on_and_a_given_up_one_stays_as_it_was(
        setting, folder, tmp_path):
    arena, server = setting.arena(), setting.server
    given_up = arena.assign(STATION, 'ada', PROMPT).session_id
    first = run(arena, folder)
    reveals = [arena.reveal(first)]
    arena.abort(given_up, 'not this one')
    again, second = run(arena, folder), run(arena, folder)
    reveals += [arena.reveal(again), arena.reveal(second)]
    assert server.sessions.get(again).repeats == given_up
    expected = {first: False, again: False, second: True}
    assert server.sessions.get(given_up).chosen is False
    assert {name: server.sessions.get(name).chosen for name in expected} == expected
    assert [reveal.chosen for reveal in reveals] == list(expected.values())
    entries = [json.loads(body) for body in server.log.entries(0)]
    assert {entry['session']: entry['chosen'] for entry in entries} == expected
    bundle = server.log.bundle()
    assert check_bundle({**bundle, 'standings': standings_of(bundle)}).chosen == 1
    export_tables(server.database, tmp_path / 'out')
    assert {row.session_id: row.chosen for row in read_folder(tmp_path / 'out').comparisons()
            } == expected
    folders = materialise(Browse(server.database), server.uploads, server.blobs,
                          tmp_path / 'sessions')
    assert {path.name: read_session(path).comparison().chosen for path in folders} == expected
    assert server.results.votes().chosen.sum() == 1


def test_a_server_that_does_not_look_at_verdicts_chooses_no_pair(tmp_path, pool):
    setting = Setting(tmp_path / 'server', '', pool, informative=False)
    try:
        arena = setting.arena()
        assert [arena.reveal(run(arena, tmp_path)).chosen for _ in range(2)] == [False, False]
    finally:
        setting.close()


@pytest.mark.parametrize('chosen', [True, False, None])
def test_files_and_tables_keep_it(tmp_path, chosen):
    write_session(tmp_path, SessionFile(
        's1', state='done', reveal=Reveal('n', 'p', 'q', chosen=chosen),
        verdict=Verdict(preference=Preference.A, explanation='A did it')))
    write_tables(tmp_path, [RoboArenaSession('s1', 'p', 'q', preference=Preference.A,
                                             chosen=chosen)])
    rows = [read_session(tmp_path).comparison(), *read_folder(tmp_path).comparisons()]
    assert [row.chosen for row in rows] == [chosen, chosen]
    votes = Comparisons.from_words(rows)
    assert (votes.chosen is not None and votes.chosen.all()) == bool(chosen)
    assert votes.take([0]).chosen is None or votes.take([0]).chosen.tolist() == [True]
