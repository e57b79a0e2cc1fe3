"""The relay reads the database once for all slots, and still sees soon what changed."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, DataError, PolicyUnavailable, Unauthorised
from arena_robot.policy.base import PolicySpec
from arena_robot.server.base import SessionState, as_json
from arena_robot.server.relay import routes
from arena_robot.server.relay.routes import ROUTE_S, KnownPolicies, RelayRoutes
from arena_robot.server.store.sessions import SlotRow

STEP_S = 1 / 15


class World:
    """A clock, sessions ``s0``, ``s1``, ... with the tokens ``s0a``, ``s0b``, ..., policies."""

    def __init__(self):
        self.now_s, self.reads, self.fails = 0.0, [], False
        self.state, self.equal_s, self.closed = {}, None, set()

    def monotonic(self):
        return self.now_s

    def of_tokens(self, tokens):
        self.read(f'of_tokens {len(tokens)}')
        return {token: SlotRow(
            token[:-1], Slot(token[-1].upper()),
            self.state.get(token[:-1], SessionState.RUNNING), 'n', (1, 2), self.equal_s)
            for token in tokens if token.startswith('s')}

    def as_they_are(self, ids):
        self.read(f'as_they_are {len(ids)}')
        return {session_id: (self.state.get(session_id, SessionState.RUNNING), self.equal_s)
                for session_id in ids}

    def by_ids(self, numbers):
        self.read('by_ids')
        return {number: SimpleNamespace(number=number, spec='') for number in numbers}

    def read(self, what):
        if self.fails:
            raise OSError('the database is gone')
        self.reads.append(what)

    def reachable(self, record):
        if record.number in self.closed:
            raise DataError('grpc://secret.example is not allowed')
        return f'policy {record.number}'


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(routes, 'time', made)
    return made


def driven(world, work):
    async def run():
        with ThreadPoolExecutor(2) as threads:
            routes = RelayRoutes(world, world, threads, world.reachable)
            try:
                return await work(routes)
            finally:
                routes.close()
    return asyncio.run(run())


async def steps(world, routes, tokens, seconds):
    """Every slot asks for its route at every control step; return the last ones."""
    for _ in range(round(seconds / STEP_S)):
        world.now_s += STEP_S
        newest = [await routes.find(token) for token in tokens]
        if routes._renewal is not None:
            await routes._renewal
    return newest


def test_one_query_renews_the_routes_of_all_slots(world):
    tokens = [f's{k}{slot}' for k in range(100) for slot in 'ab']

    async def work(routes):
        first = [await routes.find(token) for token in tokens]
        before = len(world.reads)
        last = await steps(world, routes, tokens, 15.0)
        return first, last, world.reads[before:]

    first, last, reads = driven(world, work)
    assert [route.pair for route in last] == [
        {slot: f'policy {number}'} for _ in range(100) for slot, number in ((Slot.A, 1),
                                                                           (Slot.B, 2))]
    assert [route.episode for route in last] == [route.episode for route in first]
    assert set(reads) == {'as_they_are 100', 'by_ids'}
    assert len(reads) <= 2 * 15.0 / 0.75


def test_what_changed_is_seen_within_two_seconds_while_it_is_used(world):
    async def work(routes):
        await steps(world, routes, ['s0a', 's1a'], 3.0)
        world.state['s0'] = SessionState.CANCELLED
        world.equal_s = 0.4
        await steps(world, routes, ['s1a'], ROUTE_S)
        with pytest.raises(Conflict, match='cancelled'):
            await steps(world, routes, ['s0a'], ROUTE_S)
        route, = await steps(world, routes, ['s1a'], ROUTE_S)
        assert route.equal_s == 0.4
        assert route.pair == {Slot.A: 'policy 1', Slot.B: 'policy 2'}
        world.closed.add(1)
        with pytest.raises(PolicyUnavailable) as raised:
            await steps(world, routes, ['s1a'], ROUTE_S)
        assert 'secret' not in str(raised.value)

    driven(world, work)


def test_without_the_database_a_route_ends_after_two_seconds(world, caplog):
    async def work(routes):
        await steps(world, routes, ['s0a'], 3.0)
        world.fails, lost_s = True, world.now_s
        with pytest.raises(OSError, match='gone'):
            await steps(world, routes, ['s0a'], 10.0)
        assert world.now_s - lost_s <= ROUTE_S
        world.fails = False
        await steps(world, routes, ['s0a'], 1.0)

    driven(world, work)
    assert 'were not renewed' in caplog.text


def test_a_slot_that_nobody_uses_is_not_read_again(world):
    async def work(routes):
        await steps(world, routes, ['s0a', 's1a', 's1b'], 3.0)
        await steps(world, routes, ['s1a', 's1b'], 3.0)
        before = len(world.reads)
        await steps(world, routes, ['s1a', 's1b'], 3.0)
        assert set(world.reads[before:]) == {'as_they_are 1', 'by_ids'}
        assert set(routes._known) == {'s1a', 's1b'}

    driven(world, work)


def test_slots_that_begin_at_the_same_time_are_read_together(world):
    tokens = [f's{k}a' for k in range(100)]

    async def work(routes):
        answers = await asyncio.gather(*map(routes.find, [*tokens, 'x0a']), return_exceptions=True)
        assert [route.session_id for route in answers[:-1]] == [token[:-1] for token in tokens]
        assert isinstance(answers[-1], Unauthorised)

    driven(world, work)
    assert world.reads.count('by_ids') == 1
    assert len([read for read in world.reads if read.startswith('of_tokens')]) <= 2


def test_an_unknown_token_has_no_route(world):
    async def work(routes):
        with pytest.raises(Unauthorised):
            await routes.find('x0a')
        assert not routes._known

    driven(world, work)


def test_sessions_too_short_for_a_renewal_are_forgotten(world):
    """A station in a hurry, or one that only connects: nothing of it stays in memory."""
    async def work(routes):
        for k in range(100):
            await steps(world, routes, [f's{k}a', f's{k}b'], 0.5)
        assert len(routes._known) <= 2 * ROUTE_S / 0.5 * 2
        before = len(world.reads)
        await steps(world, routes, ['s99a'], 1 / 15)    # it is still known
        assert len(world.reads) == before

    driven(world, work)


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
