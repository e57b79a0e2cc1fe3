"""Commands on topics while a trajectory is followed: which of them take over."""

import numpy as np
import pytest
from test_follow_trajectory import LINE, NAMES, Q, Rig, no_publisher, turned

from arena_robot.drivers.sim.station import SimStation
from arena_robot.nodes.arm import commands as arm_commands
from arena_robot.nodes.arm.trajectory import Trajectory
from arena_robot.nodes.lib import convert


@pytest.fixture
def rig(monkeypatch):
    topics = {}
    monkeypatch.setattr(arm_commands.qos, 'subscription',
                        lambda node, kind, topic, handle, profile: topics.update({topic: handle}))
    monkeypatch.setattr(arm_commands.qos, 'publisher', no_publisher)
    with SimStation.make('do_not_move', 0, cameras=()) as station:
        rig = Rig(station)
        rig.topics = topics
        yield rig


def taken_over(rig, after_s, latency_s):
    """Send one target with a latency after the path began; return whether it was taken."""
    rig.commands.run(Trajectory(np.array([0.0, 3.0]), np.array([Q, turned(1, 0.5)])),
                     rig.station.clock.now_ns())
    rig.wait(after_s)
    stamp_ns = rig.station.clock.now_ns()
    rig.wait(latency_s)
    rig.topics['~/target_joint'](convert.joint_state(stamp_ns, '', NAMES, rig.guard.state().q))
    return not rig.commands.playing


@pytest.mark.parametrize('latency_s', [0.0, 0.008, 0.1])
def test_a_command_with_latency_takes_over_from_a_trajectory(rig, latency_s):
    assert taken_over(rig, 0.2, latency_s), rig.commands.refusal


def test_a_command_from_before_the_trajectory_does_not_take_over(rig):
    rig.wait(0.02)
    stamp_ns = rig.station.clock.now_ns()
    rig.wait(0.02)
    rig.commands.run(LINE, rig.station.clock.now_ns())
    rig.topics['~/target_joint'](convert.joint_state(stamp_ns, '', NAMES, Q))
    assert rig.commands.playing
    assert 'older than one' in rig.commands.refusal
