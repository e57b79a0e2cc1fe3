"""Evaluators by their agreement with the audit: a planted inverted one is found."""

import numpy as np
import pytest

from arena_robot.audit.evaluators import EvaluatorKind, evaluator_kind, evaluator_kinds
from arena_robot.core.errors import ConfigError

RATE = 0.86     # of decisive pairs in which an honest evaluator and the local judge agree


def drawn(rng, rate, count):
    return (rng.random(count) < rate).tolist()


@pytest.mark.parametrize(('sessions', 'share'), [(20, 0.8), (40, 0.97)])
def test_a_planted_inverted_evaluator_is_found(sessions, share):
    rng = np.random.default_rng(0)
    found, wronged, coin_taken = 0, 0, 0
    for _ in range(300):
        people = {f'honest {k}': drawn(rng, RATE, sessions) for k in range(5)}
        people |= {'inverted': drawn(rng, 1 - RATE, sessions), 'coin': drawn(rng, 0.5, sessions)}
        kinds = {e.evaluator: e.kind for e in evaluator_kinds(people)}
        found += kinds['inverted'] is EvaluatorKind.INVERTED
        coin_taken += kinds['coin'] is EvaluatorKind.INVERTED
        wronged += sum(kinds[f'honest {k}'] is EvaluatorKind.INVERTED for k in range(5))
    assert found / 300 >= share
    assert wronged == 0
    assert coin_taken / 300 <= 0.05


def test_few_sessions_decide_nothing():
    assert evaluator_kind('e', 0, 10, RATE).kind is EvaluatorKind.UNDECIDED
    assert evaluator_kind('e', 2, 25, RATE).kind is EvaluatorKind.INVERTED
    assert evaluator_kind('e', 23, 25, RATE).kind is EvaluatorKind.HONEST
    assert evaluator_kind('e', 60, 120, RATE).kind is EvaluatorKind.COIN
    assert sum(evaluator_kind('e', 7, 9, RATE).likely.values()) == pytest.approx(1.0)
    assert evaluator_kinds({}) == []
    with pytest.raises(ConfigError):
        evaluator_kind('e', 3, 2, RATE)
