"""Policies as their authors bring them: from the submission to the pool and through a session."""

import asyncio
import dataclasses
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import trustme
from arena_setting import STATION, Setting, fine
from openpi_as_it_is import sampled, served

from arena_robot.core.episode import Slot
from arena_robot.core.errors import PolicyTimeout
from arena_robot.core.process import wait_until
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc.channel import query_request
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.server.base import PolicyState, PolicyTarget
from arena_robot.server.config import Approval
from arena_robot.server.pool import policy_pool as checks
from arena_robot.server.pool.policy_pool import PolicyChecks
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.relay.upstreams import DecodedUpstream
from arena_robot.server.store.policies import NewPolicy
from arena_robot.session.arena.contract import PROMPT, observation

SMALL = {'image_resolution': (24, 32)}


@pytest.fixture
def tls(tmp_path):
    """Return certificate and key files for this machine, and the authority's certificate."""
    authority = trustme.CA()
    issued = authority.issue_cert('127.0.0.1')
    issued.private_key_pem.write_to_path(str(tmp_path / 'key.pem'))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / 'cert.pem'))
    return (tmp_path / 'cert.pem', tmp_path / 'key.pem'), authority.cert_pem.bytes().decode()


@pytest.fixture
def lone(tmp_path, pool):
    """A server with the checks that it really has and one policy in the pool."""
    made = Setting(tmp_path / 'server', '', {'azure-fast': pool['azure-fast']},
                   probation_sessions=0, approve_policies=Approval.NONE)
    made.server.pool.checks = PolicyChecks(checks.conformance, checks.probe, checks.spec)
    made.server._housekeeping.close()    # reviews and probes are begun by the tests
    yield made
    made.close()


@pytest.mark.parametrize('random', [np.random.default_rng(3), None], ids=['samples', 'repeats'])
def test_a_server_of_openpi_goes_into_the_pool_and_through_a_session(lone, tls, random):
    files, authority = tls
    with served(sampled(random), SMALL, 'k3y', files, '/pi0/droid') as port:
        new = lone.calls('owner')('RegisterPolicy', pb.Policy(
            name='pi0', token='k3y', tls_ca=authority,
            address=f'openpis://127.0.0.1:{port}/pi0/droid?action_space=joint_velocity'))
        assert (new.has_token, new.has_tls_ca, new.token, new.tls_ca) == (True, True, '', '')
        moved, = lone.server.pool.review()
        assert not moved.reason
        assert moved.state is PolicyState.POOL
        assert (moved.action_space, moved.external_cameras) == ('joint_velocity', 1)
        assert json.loads(moved.spec)['image_size'] == [24, 32]
        arena = lone.arena()
        session_id = arena.assign(STATION, 'ada', PROMPT).session_id
        lengths = {len(arena.policy(session_id, slot).infer(observation(), 'x')) for slot in Slot}
        assert 10 in lengths


@pytest.mark.parametrize(('change', 'says'), [
    ({'token': 'other'}, 'HTTP 401'), ({'path': '/elsewhere'}, 'HTTP 404'),
    ({'tls_ca': ''}, 'does not answer'), ({'query': ''}, 'does not say its action space')])
def test_what_is_missing_of_an_address_is_the_reason(lone, tls, change, says):
    files, authority = tls
    given = {'token': 'k3y', 'path': '/pi0', 'query': '?action_space=joint_velocity',
             'tls_ca': authority, **change}
    with served(sampled(None), SMALL, 'k3y', files, '/pi0') as port:
        lone.calls('owner')('RegisterPolicy', pb.Policy(
            name='pi0', token=given['token'], tls_ca=given['tls_ca'],
            address=f'openpis://127.0.0.1:{port}{given["path"]}{given["query"]}'))
        moved, = lone.server.pool.review()
    assert moved.state is PolicyState.SUSPENDED
    assert says in moved.reason


def test_a_review_without_probation_shows_no_state_between(lone, pool, monkeypatch):
    policies, seen = lone.server.policies, []
    move = policies.move

    def watched(name, to, reason=''):
        moved = move(name, to, reason)
        seen.append(policies.get(name).state)    # what `arena policy submit --wait` could read
        return moved

    monkeypatch.setattr(policies, 'move', watched)
    lone.server.pool.checks = PolicyChecks(fine, fine)
    lone.calls('owner')('RegisterPolicy', pb.Policy(name='echo', address=pool['crimson-7b']))
    assert [policy.state for policy in lone.server.pool.review()] == [PolicyState.POOL]
    assert seen == [PolicyState.POOL]


def test_what_an_owner_states_must_be_what_the_server_says(lone, pool):
    calls = lone.calls('owner')
    address = pool['crimson-7b']    # an echo: joint positions, one external camera
    calls('RegisterPolicy', pb.Policy(name='echo', address=address, external_cameras=2,
                                      action_space='joint_velocity'))
    moved, = lone.server.pool.review()
    assert moved.state is PolicyState.SUSPENDED
    assert 'external cameras was submitted as 2 (--external-cameras), its server says 1' \
        in moved.reason
    assert 'action space was submitted as joint_velocity' in moved.reason
    lone.server.pool.checks = PolicyChecks(fine, fine, lambda target: PolicySpec(
        external_cameras=2, stereo=True))
    calls('UpdatePolicy', pb.Policy(name='echo', address=address))
    calls('ResubmitPolicy', pb.NameRequest(name='echo'))
    moved, = lone.server.pool.review()
    assert (moved.state, moved.external_cameras, moved.stereo) == (PolicyState.POOL, 2, True)


def test_a_policy_that_asks_for_depth_goes_into_the_pool(lone):
    echo = Echo()
    echo.spec = dataclasses.replace(echo.spec, depth=True)
    with GrpcPolicyServer(echo) as server:
        lone.calls('owner')('RegisterPolicy', pb.Policy(name='echo', address=server.address))
        moved, = lone.server.pool.review()
    assert moved.state is PolicyState.POOL, moved.reason
    assert json.loads(moved.spec)['depth'] is True


def test_one_slow_policy_delays_no_other_review_and_no_probe(lone, pool):
    end, slow = threading.Event(), 'grpc://127.0.0.1:9'
    policies, owner = lone.server.policies, lone.owner.id
    policies.add(NewPolicy('slow', slow), owner)
    policies.add(NewPolicy('quick', pool['crimson-7b']), owner)

    def waits(target):
        return '' if slow not in target.address or end.wait(20.0) else 'not let go'

    policies.add(NewPolicy('slow and live', slow), owner, PolicyState.POOL)
    lone.server.pool.checks = PolicyChecks(waits, waits)
    try:
        quick, waiting = lone.server.pool.begin_reviews()
        assert quick.result(10.0).state is PolicyState.POOL
        assert lone.server.pool.begin_reviews() == [], 'it is being checked already'
        *probes, asking = lone.server.pool.begin_probes()
        assert [probe.result(10.0) for probe in probes] == [True, True]
        assert not waiting.done()
        assert not asking.done()
    finally:
        end.set()
    assert waiting.result(10.0).state is PolicyState.POOL


def test_a_dead_server_is_seen_by_the_next_probes_though_another_one_hangs(tmp_path):
    end, asked = threading.Event(), []

    def probe(target):
        if 'openpi' in target.address:
            asked.append(target)
            return '' if end.wait(60.0) else 'hangs'
        return checks.probe(target)

    with GrpcPolicyServer(Echo()) as dying:
        made = Setting(tmp_path / 'server', '', {
            'dying': dying.address, 'hangs': 'openpi://127.0.0.1:9'}, probe_period_s=0.2)
        made.server.pool.checks = PolicyChecks(fine, probe)
        policies = made.server.policies
        assert wait_until(lambda: bool(asked), 20.0)
        assert policies.get('dying').healthy
        dying.close()
        assert wait_until(lambda: not policies.get('dying').healthy, 20.0)
    assert len(asked) == 1, 'one that hangs is asked once'
    end.set()
    made.close()


def test_a_deadline_is_that_of_its_own_call_and_the_wait_for_a_turn_is_in_it():
    end = threading.Event()

    def infer(request):
        if request['prompt'] == 'wait':
            end.wait(20.0)
        return np.zeros((3, 8))

    def asked(prompt):
        seen = observation()
        return query_request(dataclasses.replace(seen, prompt=prompt), 'one', PolicySpec())

    async def calls(upstream):
        await upstream.infer(asked('go'), 0.5)
        waiting = asyncio.ensure_future(upstream.infer(asked('wait'), 15.0))
        await asyncio.sleep(0.3)
        with pytest.raises(PolicyTimeout):
            await upstream.infer(asked('go'), 0.3)
        assert not waiting.done(), 'its deadline was another one'
        end.set()
        assert (await waiting).rows == 3
        await upstream.close()

    with served(infer, SMALL) as port, ThreadPoolExecutor(4) as threads:
        upstream = DecodedUpstream(PolicyTarget(
            f'openpi://127.0.0.1:{port}?action_space=joint_velocity'), threads)
        asyncio.run(calls(upstream))
