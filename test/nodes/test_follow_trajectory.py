"""Goals of follow_joint_trajectory on a simulated arm: refusals, tolerances, how they end."""

import importlib
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from arena_robot.drivers.guarded import GuardedArm
from arena_robot.drivers.sim.station import SimStation
from arena_robot.nodes.arm import commands as arm_commands
from arena_robot.nodes.arm.actions import ArmActions, Follower
from arena_robot.nodes.arm.commands import ArmCommands
from arena_robot.nodes.arm.trajectory import (
    GoalCode,
    GoalRefused,
    Tolerance,
    Trajectory,
    TrajectoryGoal,
    trajectory_goal,
)
from arena_robot.robots.arms import PANDA, RESET_JOINTS
from arena_robot.safety.filter import Safety
from arena_robot.safety.watchdog import CommandWatchdog

Q = np.array(RESET_JOINTS)
NAMES = PANDA.joint_names()
TICK_S = 0.004


def joint(name, position=0.0, velocity=0.0):
    """Return a control_msgs/JointTolerance."""
    return SimpleNamespace(name=name, position=position, velocity=velocity, acceleration=0.0)


def request(*points, on_path=(), at_goal=(), time_s=0.0, names=NAMES, velocities=None):
    """Return the goal of a control_msgs/FollowJointTrajectory through ``points`` of (s, q)."""
    message = JointTrajectory(joint_names=names)
    for seconds, q in points:
        point = JointTrajectoryPoint(positions=[float(v) for v in q])
        point.velocities = [float(v) for v in velocities] if velocities is not None else []
        point.time_from_start = Duration(sec=int(seconds), nanosec=round(seconds % 1 * 1e9))
        message.points.append(point)
    return SimpleNamespace(
        trajectory=message, path_tolerance=on_path, goal_tolerance=at_goal,
        goal_time_tolerance=Duration(sec=int(np.floor(time_s)), nanosec=round(time_s % 1 * 1e9)))


def turned(joint_number, angle):
    return Q + angle * np.eye(7)[joint_number - 1]


def no_publisher(node, kind, topic):
    return SimpleNamespace(publish=lambda message: None)


class Rig:
    """The arm of a simulated station behind the real guard and command layer, stepped by hand."""

    def __init__(self, station):
        self.station = station
        self.guard = GuardedArm(station.arm, Safety(PANDA.limits, station.clock),
                                CommandWatchdog(station.clock, 0.5, 0.2), PANDA)
        logger = SimpleNamespace(warning=lambda *_, **__: None)
        line = SimpleNamespace(part=station.clock, to_part=lambda ns: ns, to_ros=lambda ns: ns)
        self.node = SimpleNamespace(
            keep=lambda made: made, timeline=line, get_logger=lambda: logger, active=True,
            played=SimpleNamespace(problem=''),
            context=SimpleNamespace(ok=lambda: True),
            params=SimpleNamespace(max_command_age=0.2, goal_tolerance=0.03))
        self.commands = ArmCommands(self.node, self.guard, NAMES, PANDA.base_frame())
        self.follower = Follower(self.commands, station.clock, 0.03, 0.2, self.wait)
        self.at, self.told, self.speeds = {}, [], []

    def wait(self, seconds):
        for _ in range(round(seconds / TICK_S)):
            self.commands.play()
            self.guard.watch()
            self.station.step(TICK_S)
            self.speeds.append(float(np.max(np.abs(self.guard.state().dq))))

    def follow(self, goal, begin_ns=None):
        """Follow ``goal``; ``at`` maps times from its start to what is done then."""
        begin_ns = self.station.clock.now_ns() if begin_ns is None else begin_ns

        def interrupted(state, mine):
            now_s = (self.station.clock.now_ns() - begin_ns) * 1e-9
            for when in [when for when in self.at if when <= now_s]:
                said = self.at.pop(when)()
                if said:
                    return said
            return '' if self.commands.takeovers == mine else 'another command took over'
        return self.follower.follow(goal, begin_ns, interrupted,
                                    lambda *looked: self.told.append(looked))


@pytest.fixture
def rig(monkeypatch):
    monkeypatch.setattr(arm_commands.qos, 'subscription', lambda *_: None)
    monkeypatch.setattr(arm_commands.qos, 'publisher', no_publisher)
    with SimStation.make('do_not_move', 0, cameras=()) as station:
        yield Rig(station)


def test_a_goal_is_reached_and_everything_told(rig):
    end = rig.follow(request((1.0, turned(1, 0.2)), (2.0, turned(1, 0.3))))
    assert (end.code, end.text) == (GoalCode.SUCCESSFUL, '')
    assert abs(rig.guard.state().q[0] - 0.3) < 0.03
    assert rig.speeds[-1] < 0.05
    assert not rig.commands.playing
    times = [elapsed_s for _, elapsed_s, _ in rig.told]
    assert times == sorted(times)
    assert len(times) > 90


def test_a_cancelled_goal_brings_the_arm_to_rest_and_it_stays(rig):
    rig.at[1.0] = lambda: 'cancelled'
    end = rig.follow(request((3.0, turned(1, 0.9))))
    assert (end.code, end.text) == (GoalCode.INVALID_GOAL, 'cancelled')
    assert rig.speeds[-1] > 0.2
    moving = len(rig.speeds)
    rig.wait(4.5)
    at_rest = [k for k in range(moving, len(rig.speeds)) if max(rig.speeds[k:]) < 0.02]
    assert (at_rest[0] - moving) * TICK_S < 0.15
    assert rig.guard.state().q[0] < 0.4


@pytest.mark.parametrize(('goal', 'code', 'says'), [
    (request((2.0, turned(2, 2.5))), GoalCode.INVALID_GOAL, 'joint 2 would be at'),
    (request((0.1, turned(1, 0.3))), GoalCode.INVALID_GOAL, 'joint 1 would move at 3.00 rad/s'),
    (request((0.0, turned(1, 0.5)), (2.0, Q)), GoalCode.INVALID_GOAL, 'begins 0.500 rad from'),
    (request((2.0, turned(4, 1.3))), GoalCode.INVALID_GOAL, 'the path leaves the workspace'),
    (request((2.0, Q), velocities=[0.1] * 7), GoalCode.INVALID_GOAL, 'must have no velocity'),
    (request(), GoalCode.INVALID_GOAL, 'at least one point'),
    (request((2.0, Q * np.nan)), GoalCode.INVALID_GOAL, 'finite'),
    (request((2.0, Q), (1.0, Q)), GoalCode.INVALID_GOAL, 'must increase'),
    (request((2.0, Q), names=[f'joint{i}' for i in range(7)]), GoalCode.INVALID_JOINTS, 'joints'),
    (request((2.0, Q), on_path=[joint('elbow', 0.1)]), GoalCode.INVALID_JOINTS, "of 'elbow'"),
    (request((2.0, Q), at_goal=[joint(NAMES[0], np.nan)]), GoalCode.INVALID_GOAL, 'NaN'),
])
def test_what_may_not_be_followed_is_refused_before_anything_moves(rig, goal, code, says):
    if 'workspace' in says:
        rig.guard.safety.limits = small_box()
    end = rig.follow(goal)
    assert end.code is code
    assert says in end.text
    assert rig.told == []
    rig.wait(0.2)
    assert max(rig.speeds) < 0.01


def small_box():
    from arena_robot.safety.limits import limits_for
    return limits_for('panda', {'workspace_lower': [0.2, -0.4, 0.15],
                                'workspace_upper': [0.6, 0.4, 0.6]})


def test_a_trajectory_that_should_have_begun_is_refused(rig):
    end = rig.follow(request((2.0, Q)), rig.station.clock.now_ns() - 500_000_000)
    assert end.code is GoalCode.OLD_HEADER_TIMESTAMP
    assert '0.500 s ago' in end.text


def test_leaving_the_path_stops_the_arm(rig):
    start_q = turned(1, 0.0)
    rig.guard.arm = SimpleNamespace(   # an arm that does not follow
        state=rig.station.arm.state, stop=rig.station.arm.stop, open=lambda: None,
        command=lambda command: rig.station.arm.command(type(command)(start_q, command.stamp_ns)))
    end = rig.follow(request((2.0, turned(1, 0.6)), on_path=[joint(NAMES[0], 0.1)]))
    assert end.code is GoalCode.PATH_TOLERANCE_VIOLATED
    assert 'joint 1 is 0.1' in end.text
    assert 0.3 < rig.told[-1][1] < 0.5
    assert not rig.commands.playing


def test_a_goal_that_is_not_reached_in_time_fails(rig):
    rig.guard.arm = SimpleNamespace(
        state=rig.station.arm.state, stop=rig.station.arm.stop, open=lambda: None,
        command=lambda command: rig.station.arm.command(type(command)(Q, command.stamp_ns)))
    end = rig.follow(request((1.0, turned(1, 0.3)), time_s=0.5))
    assert end.code is GoalCode.GOAL_TOLERANCE_VIOLATED
    assert '0.5 s after the last point joint 1 is 0.3' in end.text
    assert 1.5 <= rig.told[-1][1] < 1.6


def test_a_stop_ends_a_goal_and_nothing_is_sent_after_it(rig):
    def stop():
        rig.commands.drop()
        rig.guard.halt('stopped by a person')
    rig.at[0.5] = stop
    end = rig.follow(request((2.0, turned(1, 0.6))))
    assert end.text == 'another command took over'
    rig.wait(1.0)
    assert rig.speeds[-1] < 0.02
    assert rig.guard.state().q[0] < 0.25


def test_a_new_trajectory_goes_on_when_the_old_goal_ends(rig):
    newer = Trajectory(np.array([0.0, 1.0]), np.array([turned(1, 0.1), turned(1, 0.2)]))
    rig.at[0.5] = lambda: rig.commands.run(newer, rig.station.clock.now_ns()) and None
    end = rig.follow(request((2.0, turned(1, 0.4))))
    assert end.text == 'another command took over'
    assert rig.commands.playing


LIMIT = np.full(7, 0.1)
OPEN = np.full(7, np.inf)
LINE = Trajectory(np.array([0.0, 2.0]), np.array([Q, turned(1, 1.0)]))


@pytest.mark.parametrize(('elapsed_s', 'q', 'dq', 'code'), [
    (-1.0, turned(1, 9.0), 0.0, None),
    (1.0, turned(1, 0.5), 0.5, None),
    (1.0, turned(1, 0.58), 0.5, None),
    (1.0, turned(1, 0.62), 0.5, GoalCode.PATH_TOLERANCE_VIOLATED),
    (1.0, turned(1, 0.5), 0.0, GoalCode.PATH_TOLERANCE_VIOLATED),
    (2.0, turned(1, 0.95), 0.0, GoalCode.SUCCESSFUL),
    (2.0, turned(1, 0.95), 0.3, None),
    (2.5, turned(1, 0.85), 0.0, None),
    (3.1, turned(1, 0.85), 0.0, GoalCode.GOAL_TOLERANCE_VIOLATED),
])
def test_a_goal_is_judged_by_time_place_and_speed(elapsed_s, q, dq, code):
    goal = TrajectoryGoal(LINE, Tolerance(LIMIT, LIMIT + 0.3), Tolerance(LIMIT, LIMIT), 1.0)
    end = goal.judge(elapsed_s, q, dq * np.eye(7)[0])
    assert (end and end.code) is code


def test_tolerances_are_those_of_the_request_over_the_defaults():
    goal = trajectory_goal(request(
        (1.0, Q), on_path=[joint(NAMES[2], 0.2, -1.0)],
        at_goal=[joint(NAMES[1], -1.0), joint(NAMES[4], 0.5)], time_s=-1.0), NAMES, Q, 0.03)
    assert goal.on_path.position.tolist() == [*[np.inf] * 2, 0.2, *[np.inf] * 4]
    assert goal.at_goal.position.tolist() == [0.03, np.inf, 0.03, 0.03, 0.5, 0.03, 0.03]
    assert goal.settle_s == np.inf
    assert trajectory_goal(request((1.0, Q)), NAMES, Q, 0.03).settle_s == 2.0
    with pytest.raises(GoalRefused, match='the joints are'):
        trajectory_goal(request((1.0, Q), names=NAMES[:6]), NAMES, Q, 0.03)


class Action:
    """FollowJointTrajectory's result and feedback, as control_msgs has them."""

    class Result(SimpleNamespace):
        pass

    class Feedback(SimpleNamespace):
        def __init__(self, **values):
            points = {name: JointTrajectoryPoint() for name in ('desired', 'actual', 'error')}
            super().__init__(header=Header(), **points, **values)


class Handle:
    """What a goal handle offers an action's execution."""

    def __init__(self, goal, cancel_at):
        self.request, self.cancel_at = goal, cancel_at
        self.feedback, self.ended = [], ''

    @property
    def is_cancel_requested(self):
        return len(self.feedback) > self.cancel_at

    def publish_feedback(self, feedback):
        self.feedback.append(feedback)

    def __getattr__(self, name):
        if name not in ('canceled', 'succeed', 'abort'):
            raise AttributeError(name)
        return lambda: setattr(self, 'ended', name)


@pytest.mark.parametrize(('cancel_at', 'ended', 'code'), [(10_000, 'succeed', 0),
                                                          (30, 'canceled', -1)])
def test_the_action_reports_by_the_messages_of_control_msgs(rig, monkeypatch, cancel_at, ended,
                                                            code):
    package, actions = ModuleType('control_msgs'), ModuleType('control_msgs.action')
    actions.FollowJointTrajectory = Action
    monkeypatch.setitem(sys.modules, 'control_msgs', package)
    monkeypatch.setitem(sys.modules, 'control_msgs.action', actions)
    served = {}
    monkeypatch.setattr(ArmActions, '_serve',
                        lambda self, kind, name, execute, group: served.update({name: execute}))
    module = importlib.import_module('arena_robot.nodes.arm.actions')
    monkeypatch.setattr(module, 'Follower', lambda *args: Follower(*args, rig.wait))
    ArmActions(rig.node, rig.commands)
    handle = Handle(request((1.0, turned(1, 0.2))), cancel_at)
    result = served['~/follow_joint_trajectory'](handle)
    assert (handle.ended, result.error_code) == (ended, code)
    assert result.error_string == ('' if code == 0 else 'cancelled: the arm holds')
    late = handle.feedback[-1]
    assert list(late.joint_names) == NAMES
    np.testing.assert_allclose(np.array(late.desired.positions) - late.actual.positions,
                               late.error.positions, atol=1e-12)
    assert late.actual.positions[0] > 0.05
    rig.wait(0.5)
    assert rig.speeds[-1] < 0.02


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
