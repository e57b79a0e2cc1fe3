"""What happens to a goal of follow_joint_trajectory while its path is checked."""

import pytest
from test_follow_trajectory import Rig, no_publisher, request, turned

from arena_robot.drivers.sim.station import SimStation
from arena_robot.nodes.arm import commands as arm_commands
from arena_robot.nodes.arm.trajectory import GoalCode


@pytest.fixture
def arm_rig(monkeypatch):
    monkeypatch.setattr(arm_commands.qos, 'subscription', lambda *_: None)
    monkeypatch.setattr(arm_commands.qos, 'publisher', no_publisher)
    with SimStation.make('do_not_move', 0, cameras=()) as station:
        yield Rig(station)


def test_a_hold_while_the_path_is_checked_refuses_the_goal(arm_rig, monkeypatch):
    check = arm_rig.guard.safety.check_path

    def held_meanwhile(*path):
        arm_rig.commands.drop()
        arm_rig.guard.stop()
        check(*path)
    monkeypatch.setattr(arm_rig.guard.safety, 'check_path', held_meanwhile)
    end = arm_rig.follow(request((1.0, turned(1, 0.2))))
    assert end.code is GoalCode.INVALID_GOAL
    assert 'while the path was checked' in end.text
    assert arm_rig.commands.playing is False


def test_a_trajectory_without_a_stamp_begins_after_its_check(arm_rig, monkeypatch):
    check = arm_rig.guard.safety.check_path

    def slow(*path):
        arm_rig.station.step(0.4)
        check(*path)
    monkeypatch.setattr(arm_rig.guard.safety, 'check_path', slow)
    begun = []
    run = arm_rig.commands.run

    def noted(path, begin_ns, *more):
        begun.append(arm_rig.station.clock.now_ns() - begin_ns)
        return run(path, begin_ns, *more)
    monkeypatch.setattr(arm_rig.commands, 'run', noted)
    end = arm_rig.follower.follow(request((1.0, turned(1, 0.2))), None, lambda state, mine: '',
                              lambda goal, elapsed_s, state: None)
    assert end.code is GoalCode.SUCCESSFUL
    assert begun == [0]
