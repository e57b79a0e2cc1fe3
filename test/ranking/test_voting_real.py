"""The RoboArena tables as ballots and as a game, made by the script behind the pictures."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from roboarena_tables import SAMPLE, WHOLE, needs_whole

from arena_robot.ranking.games.deviation import rate_table
from arena_robot.ranking.games.payoffs import game_from_json
from arena_robot.ranking.voting.profile import profile_from_json
from arena_robot.ranking.voting.rules import RULES, vote

ROOT = Path(__file__).parents[2]
# The counted verdicts, and who wins the ballots of the sessions.
FOUND = {SAMPLE: (66, 'pi0_fast_droid'), WHOLE: (517, 'pi0_fast_droid')}


@pytest.fixture(scope='module', params=[
    SAMPLE, pytest.param(WHOLE, marks=needs_whole)], ids=['sample', 'whole'])
def tables(request):
    return request.param


@pytest.fixture(scope='module')
def made(tables, tmp_path_factory):
    spec = importlib.util.spec_from_file_location('votes', ROOT / 'docs' / 'roboarena_votes.py')
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    out = tmp_path_factory.mktemp('votes')
    script.main(tables, out)
    return {name: json.loads((out / f'{name}.json').read_text(encoding='utf-8'))
            for name in ('preferences', 'sessions', 'categories')}


def test_sessions_as_ballots_have_a_condorcet_winner_that_every_rule_elects(made, tables):
    profile = profile_from_json(made['sessions'])
    assert profile.warnings() == ()
    best = profile.names.index(FOUND[tables][1])
    assert profile.condorcet_winners() == (best,)
    for method in RULES.built_in:
        assert vote(profile, method).winners[0] == best, method


def test_preferences_are_the_counted_verdicts(made, tables):
    profile = profile_from_json(made['preferences'])
    assert (len(profile.names), len(profile.ranks)) == (7, FOUND[tables][0])
    assert profile.ranks.max() == 1
    assert ((profile.ranks >= 0).sum(axis=1) == 2).all()


def test_contributions_of_the_categories_sum_to_the_ratings(made):
    game = game_from_json(made['categories'])
    found = rate_table(game.scores, game.kind)
    np.testing.assert_allclose(found.contributions.sum(axis=1), found.ratings[0], atol=1e-9)
    assert found.residual < 1e-9
