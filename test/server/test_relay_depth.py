"""Depth through the relay: to the policies that ask for it, from the stations that have it."""

import dataclasses

import numpy as np
import pytest
from arena_setting import STATION, Setting

from arena_robot.cli.main import main
from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import Slot
from arena_robot.core.errors import PolicyRefused, ServerError
from arena_robot.core.observation import DepthImage
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.proto import arena_policy_pb2 as policy_pb
from arena_robot.server.base import PolicyState
from arena_robot.server.relay import routes
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.store.relayed import of_session
from arena_robot.session.arena.contract import PROMPT, observation

# The station shrinks pictures and depth to the larger size, the relay to that of the policy.
DEEP = PolicySpec(image_size=(72, 64), depth=True)
FLAT = PolicySpec(image_size=(144, 128), external_cameras=2)
DEPTHS = {name: DepthImage(np.random.default_rng(k).integers(0, 65536, (288, 512), np.uint16), 7)
          for k, name in enumerate(('left_depth', 'right_depth', 'wrist_depth'))}


class Seeing:
    """A policy that keeps the observations it was asked with."""

    def __init__(self, spec):
        self.spec, self.seen = spec, []

    def infer(self, observation, episode=''):
        self.seen.append(observation)
        return Chunk(np.zeros((4, 8), np.float32), ActionSpace.JOINT_POSITION)

    def reset(self, episode=''):
        pass


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    """A server with a policy of depth and one without, and a station of each kind."""
    policies = {'deep': Seeing(DEEP), 'flat': Seeing(FLAT)}
    with GrpcPolicyServer(policies['deep']) as deep, GrpcPolicyServer(policies['flat']) as flat:
        made = Setting(tmp_path / 'server', '', {'deep': deep.address, 'flat': flat.address})
        made.policies = policies
        for record in made.server.policies.list():
            made.server.policies.admit(record.id, policies[record.name].spec)
        monkeypatch.setenv('ARENA_TOKEN', made.tokens['maintainer'])
        assert main(['admin', 'station', 'deep bench', '--institution', 'nyu', '--no-stereo',
                     '--depth', '--server', made.target]) == 0
        made.tokens['measures depth'] = capsys.readouterr().out.strip()
        yield made
        made.close()


def asked(arena, depths, third_person='left'):
    """Ask both policies of a new pair with these depths; return session and told specs."""
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    policies = [arena.policy(session_id, slot) for slot in Slot]
    for policy in policies:
        policy.infer(dataclasses.replace(observation(), depths=depths,
                                         third_person=third_person), 'x')
    return session_id, [policy.spec for policy in policies]


@pytest.mark.parametrize('chosen', ['left', 'right'])
def test_depth_reaches_the_policy_that_asks_for_it_and_no_other(place, chosen):
    session_id, specs = asked(place.arena('measures depth'), DEPTHS, chosen)
    assert specs[0] == specs[1], 'a station learns which slot asks for depth'
    assert specs[0].depths() == tuple(DEPTHS)
    seen, = place.policies['deep'].seen
    assert tuple(seen.images) == ('left_left', 'wrist_left')
    assert tuple(seen.depths) == ('left_depth', 'wrist_depth')
    for name, whole in (('left_depth', f'{chosen}_depth'), ('wrist_depth', 'wrist_depth')):
        assert np.array_equal(seen.depths[name].millimetres, DEPTHS[whole].millimetres[::4, ::8])
        assert seen.depths[name].stamp_ns == 7
    seen, = place.policies['flat'].seen
    assert tuple(seen.images) == ('left_left', 'right_left', 'wrist_left')
    assert not seen.depths
    place.server.record.flush()
    with place.server.database.read() as connection:
        for rollout in of_session(connection, session_id).values():
            query, = rollout.inferences()
            assert set(query.proof.pictures) == {'left_left', 'right_left', 'wrist_left'}


def test_a_station_without_depth_gets_no_policy_of_it_and_need_not_send_any(place):
    arena = place.arena()
    with pytest.raises(ServerError, match='fewer than two policies fit this station now'):
        arena.assign(STATION, 'ada', PROMPT)
    other = Seeing(FLAT)
    with GrpcPolicyServer(other) as server:
        new = place.server.policies.add(NewPolicy('other', server.address), place.owner.id,
                                        PolicyState.POOL)
        place.server.policies.set_health(new.id, True)
        place.server.policies.admit(new.id, FLAT)
        _, specs = asked(arena, {})
    assert specs[0] == specs[1]
    assert specs[0].depth, 'the pool has a policy that asks for it'
    assert (len(place.policies['deep'].seen), len(other.seen)) == (0, 1)


def test_what_only_says_that_it_is_depth_reaches_no_policy():
    seen = dataclasses.replace(observation(), depths=DEPTHS)
    sent = routes.observation_of(wire.observation_to_bytes(seen, 95))
    for image in sent.images:
        image.view = {'left_left': 'left_depth', 'left_depth': 'left_left'}.get(
            image.view, image.view)
    assert not routes.is_wanted(sent, DEEP)
    passed = policy_pb.Observation.FromString(routes.fitted(sent, DEEP))
    assert [image.view for image in passed.images] == ['wrist_left', 'wrist_depth']
    broken = policy_pb.Observation(images=[policy_pb.Image(
        view='wrist_depth', height=288, width=512, data=b'no PNG',
        encoding=policy_pb.ENCODING_DEPTH16_PNG)])
    with pytest.raises(PolicyRefused, match="depth 'wrist_depth' cannot be read"):
        routes.fitted(broken, DEEP)


def test_the_largest_pictures_and_depths_of_noise_pass():
    random, size = np.random.default_rng(3), routes.MIDDLE
    seen = observation()
    seen = dataclasses.replace(seen, depths=DEPTHS, images={
        name: dataclasses.replace(image, pixels=random.integers(0, 256, (*size, 3), np.uint8))
        for name, image in seen.images.items()})
    data = wire.observation_to_bytes(seen, routes.JPEG_QUALITY)
    assert len(routes.observation_of(data).images) == wire.MAX_IMAGES
