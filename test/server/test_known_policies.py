"""What the relay knows of policies is read once for all slots, and again soon."""

from types import SimpleNamespace

import pytest

from arena_robot.core.errors import DataError
from arena_robot.server import known_policies
from arena_robot.server.known_policies import KnownPolicies


class Pool:
    """Policies that count how often they are read."""

    def __init__(self):
        self.read, self.address = [], 'grpc://one'

    def by_id(self, number):
        self.read.append(number)
        return SimpleNamespace(address=self.address, spec='{"warm_up": 2}' if number == 1 else '')

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
    assert [known.of(number).target for number in (1, 2) * 100] == ['grpc://one'] * 200
    assert [known.of(1).warms_up, known.of(2).warms_up] == [True, False]
    assert pool.read == [1, 2]


def test_a_change_is_seen_soon_and_a_refusal_is_not_kept(pool, known, monkeypatch):
    monkeypatch.setattr(known_policies, 'KNOWN_S', -1.0)
    assert known.of(1).target == 'grpc://one'
    pool.address = 'closed'
    with pytest.raises(DataError):
        assert known.of(1).target
    pool.address = 'grpc://two'
    assert known.of(1).target == 'grpc://two'
