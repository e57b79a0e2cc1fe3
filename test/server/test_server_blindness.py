"""Nothing between a policy and a station tells which policy it is; a planted leak is found."""

import contextlib
import dataclasses
import json

import grpc
import numpy as np
import pytest

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import PolicyError, PolicyRefused
from arena_robot.core.observation import Image
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.chunks import ChunkExecutor
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import SERVICE
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc
from arena_robot.policy.resizing import shown
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import RemoteArena, ServerAddress, TokensInMemory
from arena_robot.server.config import ServerConfig
from arena_robot.server.relay import routes
from arena_robot.server.relay import service as relay_module
from arena_robot.server.relay.routes import canonical
from arena_robot.server.relay.upstreams import executable
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.store.relayed import of_session as relayed_rollouts
from arena_robot.session.arena.contract import PROMPT, observation
from arena_robot.session.base import StationInfo

NAMES = ('crimson-7b', 'azure-fast')
STATION = StationInfo('bench', 'fr3')


class Chatty:
    """A policy that tries to tell its name in every way it has."""

    spec = PolicySpec(chunk_length=4)

    def __init__(self, name):
        self.name = name
        self.heard, self.left = [], []

    def infer(self, observation, episode=''):
        self.heard.append(episode)
        self.left.append(observation.left_over)
        if observation.step == 13:
            raise PolicyError(f'I am {self.name}, and I refuse')
        if observation.step == 14:
            raise RuntimeError(f'I am {self.name}, and I break')
        actions = np.tile(np.arange(4.0, dtype=np.float32)[:, None], (1, 8))
        return Chunk(actions, ActionSpace.JOINT_POSITION)

    def reset(self, episode=''):
        self.heard.append(episode)


class Place:
    def __init__(self, folder, stack):
        self.policies = [Chatty(name) for name in NAMES]
        servers = [stack.enter_context(GrpcPolicyServer(self.policies[0])),
                   stack.enter_context(OpenpiPolicyServer(self.policies[1]))]
        self.secrets = [*NAMES, *(s.address.split('://')[1] for s in servers),
                        *(s.address.rsplit(':', 1)[1] for s in servers), 'openpi', 'olga']
        self.server = stack.enter_context(ArenaServer(
            ServerConfig(data=folder, port=0, site_port=0, probe_period_s=3600.0), SystemClock(),
            lambda a: '', lambda a: ''))
        accounts = self.server.accounts
        owner = accounts.add_account('olga', 'upenn', [Role.OWNER])
        ada = accounts.issue(accounts.add_account('ada', 'nyu', [Role.EVALUATOR]))
        token = accounts.issue(accounts.add_station(Station(0, 'bench', 'nyu', 'fr3')))
        for name, server in zip(NAMES, servers, strict=True):
            record = self.server.policies.add(NewPolicy(name, server.address), owner.id,
                                              PolicyState.POOL)
            self.server.policies.set_health(record.id, True)
        self.target = f'127.0.0.1:{self.server.port}'
        self.tokens = TokensInMemory()
        self.arena = stack.enter_context(contextlib.closing(
            RemoteArena(ServerAddress(self.target, token), SystemClock(),
                        tokens=self.tokens)))
        self.arena.sign_in(ada)


@pytest.fixture
def place(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Place(tmp_path / 'server', stack)


def everything_a_station_gets(place):
    """Return, as text by slot, all that reaches the station: bytes, headers, errors, times."""
    pair = place.arena.assign(STATION, 'ada', PROMPT)
    tokens = place.tokens.find(pair.session_id)
    received = {slot: [repr(pair)] for slot in tokens}
    with grpc.insecure_channel(place.target) as channel:
        stub = pb_grpc.PolicyServiceStub(channel)
        for slot, token in tokens.items():
            who = (('authorization', f'Bearer {token}'),)
            spec, call = stub.GetSpec.with_call(pb.GetSpecRequest(protocol_version=1),
                                                metadata=who, timeout=10.0)
            received[slot] += [str(spec), str(call.initial_metadata()),
                               str(call.trailing_metadata())]
            for step in (0, 13, 14):
                received[slot] += infer(stub, who, pair.session_id, step)
    return pair.session_id, received


def infer(stub, who, episode, step):
    seen = dataclasses.replace(shown(observation(), Chatty.spec), step=step)
    request = pb.InferRequest(protocol_version=1, episode=episode, step=step,
                              observation=wire.observation_to_bytes(seen))
    try:
        reply, call = stub.Infer.with_call(request, metadata=who, timeout=10.0)
        return [str(reply), str(call.initial_metadata()), str(call.trailing_metadata()),
                f'{reply.ByteSize()} bytes']
    except grpc.RpcError as error:
        return [str(error.code()), str(error.details()), str(error.trailing_metadata())]


def leaks(place, received):
    text = json.dumps(received)
    return [secret for secret in place.secrets if secret in text]


def test_nothing_that_reaches_the_station_names_a_policy(place):
    _, received = everything_a_station_gets(place)
    assert leaks(place, received) == []
    assert 'I am' not in json.dumps(received)


def test_both_slots_look_the_same_whatever_the_protocol(place):
    _, received = everything_a_station_gets(place)
    # Steps 13 and 14 do not travel over openpi, so only one slot errs.
    assert received['A'][:7] == received['B'][:7]


MARKED = (PolicySpec(image_size=(187, 211), chunk_length=4, jpeg_quality=83, warm_up=1),
          PolicySpec(image_size=(149, 223), chunk_length=4, resize='exact', external_cameras=2,
                     wrist_camera=False, control_rate_hz=15.0000001, pipelined=True))


def test_the_spec_that_a_station_is_told_carries_no_watermark(place):
    for record, spec in zip(place.server.policies.list(), MARKED, strict=True):
        place.server.policies.admit(record.id, spec)
    pair = place.arena.assign(STATION, 'ada', PROMPT)
    specs = [place.arena.policy(pair.session_id, slot).spec for slot in Slot]
    assert specs[0] == specs[1]
    spec = specs[0]
    assert (spec.image_size, spec.jpeg_quality, spec.resize) == ((187, 223), 95, 'fast')
    assert spec.views() == ('left_left', 'right_left', 'wrist_left')


def test_a_policy_gets_the_pictures_that_it_wants_of_those_that_all_stations_send():
    images = {name: np.full((187, 223, 3), 40 * k, np.uint8) for k, name in enumerate(
        ('left_left', 'right_left', 'wrist_left'))}
    seen = dataclasses.replace(observation(), images={
        name: Image(pixels, 7) for name, pixels in images.items()})
    for spec in (*MARKED, PolicySpec(image_size=None), PolicySpec(image_size=(187, 223))):
        sent = routes.observation_of(wire.observation_to_bytes(seen, 95))
        as_sent = {image.view: image.data for image in sent.images}
        passed = pb.Observation.FromString(routes.fitted(sent, spec))
        arrived = wire.observation_from_bytes(passed.SerializeToString())
        assert tuple(arrived.images) == spec.views()
        for image in passed.images:
            size = spec.image_size or (187, 223)
            assert (image.height, image.width, image.stamp_ns) == (*size, 7)
            assert np.abs(arrived.images[image.view].pixels.astype(int)
                          - images[image.view][0, 0]).max() <= 2
            assert size != (187, 223) or image.data == as_sent[image.view], 'as it came'
    with pytest.raises(PolicyRefused, match='at most 2097152 are passed on'):
        routes.observation_of(b'\x4a\x00' * (2 << 20))


def test_policies_learn_neither_session_nor_slot(place):
    session_id, _ = everything_a_station_gets(place)
    for policy in place.policies:
        assert policy.heard
        for episode in policy.heard:
            assert session_id not in episode
            assert not episode.endswith(('-A', '-B'))


@pytest.mark.parametrize('plant', ['words', 'timings', 'server header'])
def test_a_planted_leak_is_found(place, monkeypatch, plant):
    if plant == 'words':
        async def open_mouthed(work):
            return await work()
        monkeypatch.setattr(relay_module, 'blind', open_mouthed)
        monkeypatch.setattr(relay_module, 'blinded', lambda error: error)
    elif plant == 'timings':
        monkeypatch.setattr(relay_module, 'checked', lambda reply, spec: reply)
    else:
        original = relay_module.Relay._infer

        async def with_header(self, route, request, wait_s):
            reply = await original(self, route, request, wait_s)
            reply.timings.queue_s = float(
                route.target.address.partition('?')[0].rsplit(':', 1)[1])
            return reply
        monkeypatch.setattr(relay_module.Relay, '_infer', with_header)
    _, received = everything_a_station_gets(place)
    leak = leaks(place, received) or 'timings' in json.dumps(received)
    assert leak, 'the check does not see what was planted'


def test_timings_never_reach_the_station(place):
    _, received = everything_a_station_gets(place)
    assert 'timings' not in json.dumps(received)


def test_a_loop_gets_chunks_and_asks_when_one_is_used_up(place):
    pair = place.arena.assign(STATION, 'ada', PROMPT)
    for slot in Slot:
        executor = ChunkExecutor(place.arena.policy(pair.session_id, slot))
        taken = rolled(executor, 10)
        assert [step.chunk_step for step in taken] == [0, 1, 2, 3] * 2 + [0, 1]
        assert [step.asked_at for step in taken] == [20] * 4 + [24] * 4 + [28] * 2
        executor.reset('e')
        executor.close()
    place.server.record.flush()
    with place.server.database.read() as connection:
        seen = relayed_rollouts(connection, pair.session_id)
    assert {step.queries for step in seen.values()} == {3}, 'ten actions of chunks of four'
    assert [step.step for step in seen['A'].inferences()] == [20, 24, 28]


def rolled(executor, actions):
    """Return so many actions of a policy, asked as the loop does, without its pace."""
    return [executor.step(dataclasses.replace(observation(), step=20 + step), 'e')
            for step in range(actions)]


def test_a_hidden_rerun_is_seen_whatever_the_order_of_the_fields(place):
    """A station that writes its fields backwards is counted as any other."""
    session_id = place.arena.assign(STATION, 'ada', PROMPT).session_id
    token = place.tokens.find(session_id)['A']
    with grpc.insecure_channel(place.target) as channel:
        infer = channel.unary_unary(f'/{SERVICE}/Infer')
        for step in (0, 4, 0, 4, 0, 4):
            data = backwards(pb.Observation, wire.observation_to_bytes(dataclasses.replace(
                shown(observation(), Chatty.spec), step=step)))
            infer(backwards(pb.InferRequest, pb.InferRequest(
                protocol_version=1, step=step, observation=data).SerializeToString()),
                metadata=(('authorization', f'Bearer {token}'),), timeout=10.0)
    place.server.record.flush()
    with place.server.database.read() as connection:
        seen = relayed_rollouts(connection, session_id)['A']
    assert (seen.begun, [query.step for query in seen.inferences()]) == (3, [0, 4])


def test_a_compressed_call_is_refused_from_its_headers(place):
    session_id = place.arena.assign(STATION, 'ada', PROMPT).session_id
    token = place.tokens.find(session_id)['A']
    with grpc.insecure_channel(place.target) as channel, pytest.raises(grpc.RpcError) as caught:
        pb_grpc.PolicyServiceStub(channel).Infer(
            pb.InferRequest(observation=bytes(30 << 20)), timeout=10.0,
            metadata=(('authorization', f'Bearer {token}'),), compression=grpc.Compression.Gzip)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def backwards(kind, data):
    """Return a serialized message with its fields in the opposite order."""
    message, parts = kind.FromString(data), []
    for kept, _ in message.ListFields():
        part = kind()
        part.CopyFrom(message)
        for field, _ in message.ListFields():
            if field is not kept:
                part.ClearField(field.name)
        parts.insert(0, part.SerializeToString())
    return b''.join(parts)


def test_logs_of_the_server_are_not_the_stations(place, caplog):
    session_id, _ = everything_a_station_gets(place)
    assert any(session_id in record.getMessage() for record in caplog.records), \
        'the maintainer can find out what went wrong'


def test_a_slot_token_is_good_for_nothing_else(place):
    from arena_robot.core.errors import Unauthorised
    from arena_robot.server.client import Calls
    from arena_robot.server.proto import arena_server_pb2
    pair = place.arena.assign(STATION, 'ada', PROMPT)
    token = place.tokens.find(pair.session_id)[Slot.A.value]
    with contextlib.closing(Calls(ServerAddress(place.target, token))) as calls, \
            pytest.raises(Unauthorised):
        calls('Reveal', arena_server_pb2.SessionRequest(session_id=pair.session_id))


# A station takes as many joints as its arm has.
TOLD = dataclasses.replace(canonical(PolicySpec().action_space, [PolicySpec()]), joints=0)


@pytest.fixture
def continuing(tmp_path, monkeypatch):
    """Return a place whose policies say more of how their chunks are executed."""
    monkeypatch.setattr(Chatty, 'spec', PolicySpec(
        chunk_length=4, pipelined=True, real_time_chunking=True, open_loop_horizon=2))
    with contextlib.ExitStack() as stack:
        yield Place(tmp_path / 'server', stack)


def test_a_station_executes_chunks_as_the_policy_wants_and_its_spec_does_not_tell(continuing):
    place, policy = continuing, continuing.policies[0]
    pair = place.arena.assign(STATION, 'ada', PROMPT)
    for slot in Slot:
        executor = ChunkExecutor(place.arena.policy(pair.session_id, slot))
        assert executor.spec == dataclasses.replace(TOLD, chunk_length=1)
        rolled(executor, 10)
        executor.reset('e')
        executor.close()
    left = [rows for rows in policy.left if rows is not None]
    assert left
    assert policy.left[0] is None, 'nothing is left over at the first query'
    for rows in left:
        # What is left of a chunk of 0, 1, 2, 3, from any action on, and some of it will pass.
        assert rows.actions[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0][-len(rows.actions):]
        assert 1 <= rows.inference_delay <= len(rows.actions)
    assert place.policies[1].left == [None] * len(place.policies[1].left)


def test_what_is_behind_the_horizon_is_never_executed_without_pipelining():
    reply = pb.InferReply(actions=[float(k) for k in range(8)], rows=4, columns=2)
    assert executable(reply, PolicySpec(open_loop_horizon=3))[0] == 3
    assert executable(reply, PolicySpec(open_loop_horizon=3, pipelined=True))[0] == 4


def test_the_spec_that_was_admitted_is_used_and_not_what_the_server_says_now(
        tmp_path, monkeypatch):
    now = PolicySpec(chunk_length=4, image_size=(2048, 2048), stereo=True, warm_up=100)
    admitted = PolicySpec(chunk_length=4, pipelined=True)
    monkeypatch.setattr(Chatty, 'spec', now)
    with contextlib.ExitStack() as stack:
        place = Place(tmp_path / 'server', stack)
        for record in place.server.policies.list():
            place.server.policies.admit(record.id, admitted)
        pair = place.arena.assign(STATION, 'ada', PROMPT)
        for slot in Slot:
            assert place.arena.policy(pair.session_id, slot).spec == TOLD
        assert not any(policy.heard for policy in place.policies), 'no warm-up'
