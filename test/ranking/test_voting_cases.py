"""Worked cases in voting_cases.json: every rule against numbers by hand or published."""

import json
from pathlib import Path

import numpy as np
import pytest

from arena_robot.ranking.voting.profile import profile_from_json
from arena_robot.ranking.voting.rules import RULES, vote
from arena_robot.ranking.voting.scoring import result_to_json

CASES = json.loads((Path(__file__).parent / 'voting_cases.json').read_text(encoding='utf-8'))
ANSWERS = [pytest.param(case, method, id=f'{i}-{method}')
           for i, case in enumerate(CASES) for method in case['expected']]


@pytest.mark.parametrize(('case', 'method'), ANSWERS)
def test_a_rule_gives_the_worked_answer(case, method):
    profile = profile_from_json(case['profile'])
    expected = dict(case['expected'][method])
    result = vote(profile, method, expected.pop('k', None), expected.pop('winners_wanted', None))
    found = result_to_json(result, profile.names)
    for key, value in expected.items():
        if isinstance(value, dict):
            assert found[key] == pytest.approx(value, abs=1e-12), key
        else:
            assert found[key] == value, key


@pytest.mark.parametrize('case', [c for c in CASES if 'preferences' in c],
                         ids=lambda c: c['case'][:30])
def test_preferences_and_condorcet_winner(case):
    profile = profile_from_json(case['profile'])
    np.testing.assert_array_equal(profile.preferences, case['preferences'])
    np.testing.assert_array_equal(profile.margins, -profile.margins.T)
    if 'condorcet' in case:
        assert [profile.names[x] for x in profile.condorcet_winners()] == case['condorcet']


def test_every_rule_has_a_worked_case():
    assert set(RULES.built_in) == {method for case in CASES for method in case['expected']}
