"""Every bad input of both protocols over real sockets: a clear error with a code."""

import logging
import threading
import time

import numpy as np
import pytest
from broken_servers import deaf, free_port, raw_actions, raw_grpc, raw_openpi
from policy_samples import HASTY, Noted, all_three, both, fitting, observation, pictures

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import (
    BadReply,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.options import CallOptions, ServeOptions


@both
def test_nobody_there(protocol):
    started = time.monotonic()
    with pytest.raises(PolicyUnavailable, match='is the server running there'):
        connect(f'{protocol}://127.0.0.1:{free_port()}', HASTY)
    assert time.monotonic() - started < 5.0


@both
def test_somebody_there_who_never_answers(protocol):
    with deaf() as target, pytest.raises((PolicyUnavailable, PolicyTimeout)):
        connect(f'{protocol}://{target}', HASTY)


@both
def test_the_other_protocol(protocol):
    other = {'grpc': 'openpi', 'openpi': 'grpc'}[protocol]
    with SERVERS[other](Echo()) as server, pytest.raises(PolicyError):
        connect(f'{protocol}://127.0.0.1:{server.port}', HASTY)


class Sleepy(Noted):
    def __init__(self):
        super().__init__(PolicySpec(image_size=(24, 32)))
        self.wakes = threading.Event()

    def infer(self, observation, episode=''):
        assert self.wakes.wait(20.0)
        return super().infer(observation, episode)


@all_three
def test_a_slow_policy_meets_the_deadline_and_works_again(protocol, options):
    inner = Sleepy()
    hasty = CallOptions(infer_timeout_s=0.3, stream=options.stream)
    with SERVERS[protocol](inner) as server, connect(server.address, hasty) as policy:
        started = time.monotonic()
        with pytest.raises(PolicyTimeout):
            policy.infer(fitting(inner.spec), 'e')
        assert time.monotonic() - started < 0.9
        inner.wakes.set()
        assert len(policy.infer(fitting(inner.spec), 'e')) == 4


@all_three
def test_a_server_that_dies_during_an_episode(protocol, options):
    inner = Noted()
    server = SERVERS[protocol](inner).open()
    with connect(server.address, options) as policy:
        policy.infer(fitting(inner.spec), 'e')
        server.close()
        for _ in range(2):
            with pytest.raises(PolicyUnavailable):
                policy.infer(fitting(inner.spec), 'e')
        with SERVERS[protocol](inner, ServeOptions(port=server.port)):
            deadline = time.monotonic() + 5.0
            while True:
                try:
                    assert len(policy.infer(fitting(inner.spec), 'e')) == 4
                    break
                except PolicyUnavailable:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)


@pytest.mark.parametrize('change', [{'protocol_version': 7}, {'external_cameras': 9}])
def test_a_wrong_spec_over_grpc(change):
    with raw_grpc(np.zeros((1, 8)), **change) as address, pytest.raises(BadReply, match='spec of'):
        connect(address)


@pytest.mark.parametrize('change', [
    {'image_resolution': (0, 224)}, {'image_resolution': 224}, {'image_resolution': (1, 2, 3)},
    {'n_external_cameras': 5}, {'n_external_cameras': 'many'}, {'action_space': 'torque'},
    {'action_space': 'absent'}])
def test_wrong_metadata_over_openpi(change):
    with raw_openpi(lambda frame: None, **change) as address, pytest.raises(BadReply):
        connect(address)


@both
@pytest.mark.parametrize('actions', [
    np.zeros((4, 7)), np.zeros((0, 8)), np.full((4, 8), np.nan), np.full((4, 8), np.inf)],
    ids=['columns', 'empty', 'nan', 'inf'])
def test_a_wrong_chunk_from_a_server_that_does_not_check(protocol, actions):
    with raw_actions(protocol, actions) as address, connect(address) as policy:
        for _ in range(2):
            with pytest.raises(BadReply, match='actions'):
                policy.infer(fitting(policy.spec))


@all_three
@pytest.mark.parametrize('actions', [np.zeros((4, 7)), np.full((4, 8), np.nan)])
def test_a_wrong_chunk_is_stopped_at_our_servers(protocol, options, actions, caplog):
    class Wrong(Noted):
        def infer(self, observation, episode=''):
            return Chunk(actions, ActionSpace.JOINT_POSITION)

    inner = Wrong()
    with SERVERS[protocol](inner) as server, connect(server.address, options) as policy, \
            caplog.at_level(logging.ERROR), pytest.raises(BadReply, match='actions must be'):
        policy.infer(fitting(inner.spec))
    assert 'the policy broke its own spec' in caplog.text


@all_three
def test_tracebacks_stay_on_the_server(protocol, options, caplog):
    class Crashing(Noted):
        def infer(self, observation, episode=''):
            raise ZeroDivisionError('secret path /home/author')

    inner = Crashing()
    with SERVERS[protocol](inner) as server, connect(server.address, options) as policy, \
            pytest.raises(PolicyError, match='infer failed in the policy with Zero') as caught:
        policy.infer(fitting(inner.spec))
    assert caught.value.code == 'policy'
    assert 'secret' not in str(caught.value)
    assert 'Traceback' not in str(caught.value)
    assert 'secret path /home/author' in caplog.text


@all_three
def test_a_request_that_does_not_fit_is_refused_and_does_no_harm(protocol, options):
    inner = Noted()
    with SERVERS[protocol](inner) as server, connect(server.address, options) as policy:
        with pytest.raises(PolicyRefused, match="'left_left' is missing"):
            policy.infer(observation())
        with pytest.raises(PolicyRefused, match='7 finite numbers'):
            policy.infer(observation(pictures(inner.spec, 24, 32), q=np.nan))
        if protocol == 'grpc':    # an openpi server pads them, as openpi's transforms do
            with pytest.raises(PolicyRefused, match='must be 24x32'):
                policy.infer(observation(pictures(inner.spec, 25, 32)))
        assert len(policy.infer(fitting(inner.spec))) == 4
    assert len(inner.asked) == 1


@all_three
def test_an_oversized_message_is_refused_at_either_end(protocol, options):
    inner = Noted(PolicySpec(image_size=(600, 600)))
    sent = fitting(inner.spec)
    small = CallOptions(max_message_bytes=100_000, stream=options.stream)
    with SERVERS[protocol](inner) as server, connect(server.address, small) as policy, \
            pytest.raises(PolicyRefused):
        policy.infer(sent)
    with SERVERS[protocol](inner, ServeOptions(max_message_bytes=100_000)) as server, \
            connect(server.address, options) as policy, \
            pytest.raises((PolicyRefused, PolicyUnavailable)):
        policy.infer(sent)


@pytest.mark.parametrize(('scheme', 'served', 'trusts'), [
    ('grpcs', False, True), ('grpcs', True, False), ('grpc', True, True),
    ('openpis', False, True), ('openpis', True, False)])
def test_tls_mismatch(scheme, served, trusts, tls):
    cert, key, authority = tls
    files = {'tls_cert': cert, 'tls_key': key} if served else {}
    options = CallOptions(connect_timeout_s=2.0, tls_ca=authority if trusts else None)
    with SERVERS[scheme.rstrip('s')](Echo(), ServeOptions(**files)) as server, \
            pytest.raises(PolicyUnavailable):
        connect(f'{scheme}://127.0.0.1:{server.port}', options)
