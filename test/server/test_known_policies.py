"""What the relay knows of policies is read once for all slots, and again soon."""

from types import SimpleNamespace

import pytest

from arena_robot.core.errors import DataError
from arena_robot.policy.base import PolicySpec
from arena_robot.server.policy_target import as_json
from arena_robot.server.relay import routes
from arena_robot.server.relay.routes import KnownPolicies

SPEC = PolicySpec(warm_up=2, image_size=(180, 320))


class Pool:
    """Policies that count how often they are read."""

    def __init__(self):
        self.read, self.address = [], 'grpc://one'

    def by_ids(self, numbers):
        self.read.append(list(numbers))
        return {number: SimpleNamespace(address=self.address,
                                        spec=as_json(SPEC) if number == 1 else '')
                for number in numbers if number < 9}

    def reachable(self, record):
        if record.address == 'closed':
            raise DataError('that address is not allowed')
        return record.address


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def known(pool):
    return KnownPolicies(pool, pool.reachable)


def test_many_slots_read_a_policy_once(pool, known):
    for _ in range(100):
        assert [policy.target for policy in known.of_all((1, 2)).values()] == ['grpc://one'] * 2
    assert {number: policy.spec for number, policy in known.of_all((2, 1)).items()} == {
        1: SPEC, 2: None}
    known.of_all((2, 3))
    assert pool.read == [[1, 2], [3]]


def test_an_unknown_policy_is_said(known):
    with pytest.raises(DataError, match='no policy with number 9'):
        known.of_all((1, 9))


def test_a_change_is_seen_soon_and_a_refusal_is_not_kept(pool, known, monkeypatch):
    monkeypatch.setattr(routes, 'KNOWN_S', -1.0)
    assert known.of_all([1])[1].target == 'grpc://one'
    pool.address = 'closed'
    with pytest.raises(DataError):
        assert known.of_all([1])[1].target
    pool.address = 'grpc://two'
    assert known.of_all([1])[1].target == 'grpc://two'
