import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_robot.core.action import Action, ActionSpace, ClampReason
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError, SafetyError, StaleData
from arena_robot.core.observation import ArmState, RobotMode
from arena_robot.robots.arms import FR3, PANDA, RESET_JOINTS
from arena_robot.safety import bounds, kinematics
from arena_robot.safety.bounds import outside
from arena_robot.safety.filter import Safety
from arena_robot.safety.limits import limits_for

NOW_NS = 10_000_000_000
Q = np.array(RESET_JOINTS)
SMALL = limits_for('panda', {'workspace_lower': [0.2, -0.4, 0.15],
                             'workspace_upper': [0.8, 0.4, 0.9],
                             'elbow_lower': [-0.6, -0.6, 0.3]})
ALL_LIMITS = {'panda': PANDA.limits, 'fr3': FR3.limits, 'small box': SMALL}


def arm_state(q=Q, dq=None, **changes):
    zeros = np.zeros(7)
    values = {'stamp_ns': NOW_NS, 'q': np.asarray(q), 'dq': zeros if dq is None else np.array(dq),
              'tau': zeros, 'tau_ext': zeros, 'pose': np.zeros(6), 'q_desired': np.asarray(q)}
    return ArmState(**(values | changes))


def turn(joint, angle):
    return angle * np.eye(7)[joint - 1]


def safety(limits=PANDA.limits, **options):
    return Safety(limits, ManualClock(NOW_NS), **options)


def check(space, values, q=Q, limits=PANDA.limits, dq=None):
    action = Action(np.asarray(values), ActionSpace(space))
    return safety(limits).check(action, arm_state(q, dq))


def assert_within(target, q, dq, limits, max_delta):
    assert target.shape == (7,)
    assert np.all(np.isfinite(target))
    assert np.all(target >= limits.q_min)
    assert np.all(target <= limits.q_max)
    assert np.max(np.abs(target - q)) <= max_delta * (1 + 1e-6)
    assert outside(target, limits) == 0.0
    if np.all(q >= limits.q_min) and np.all(q <= limits.q_max):
        torque = np.abs(bounds.spring_torque(target - q, q))
        assert np.all(torque <= limits.tau_max * (1 + 1e-6))
        too_fast = np.abs(dq) >= limits.dq_max
        assert np.all(((target - q) * dq)[too_fast] <= 1e-9)


ANY_FLOAT = st.floats(width=64) | st.floats(-4, 4)
ANY_VALUES = st.lists(ANY_FLOAT, min_size=6, max_size=9) | st.lists(
    st.floats(-4, 4), min_size=7, max_size=8)
NEAR_JOINTS = st.lists(st.floats(-4, 4), min_size=7, max_size=7)
SPEEDS = st.lists(st.floats(-4, 4) | ANY_FLOAT, min_size=7, max_size=7)
INSIDE = st.lists(st.floats(0, 1), min_size=7, max_size=7)


@settings(max_examples=400)
@given(st.sampled_from(ActionSpace), ANY_VALUES, NEAR_JOINTS, SPEEDS,
       st.sampled_from(sorted(ALL_LIMITS)))
def test_no_action_yields_a_target_outside_the_limits(space, values, q, dq, name):
    limits = ALL_LIMITS[name]
    try:
        safe = check(space, values, np.array(q), limits, dq)
    except SafetyError:
        return
    assert_within(safe.q, np.array(q), np.array(dq), limits, limits.max_joint_delta)


@settings(max_examples=400)
@given(st.sampled_from(ActionSpace), st.lists(st.floats(-9, 9), min_size=8, max_size=8), INSIDE,
       st.lists(st.floats(-3, 3), min_size=7, max_size=7), st.sampled_from(sorted(ALL_LIMITS)))
def test_from_inside_every_finite_action_passes_within_the_limits(space, values, part, dq, name):
    limits = ALL_LIMITS[name]
    q = limits.q_min + np.array(part) * (limits.q_max - limits.q_min)
    if outside(q, limits) > 0.0:
        q = Q
    safe = check(space, values[:space.size], q, limits, dq)
    assert_within(safe.q, q, np.array(dq), limits, limits.max_joint_delta)


@settings(max_examples=300)
@given(st.lists(ANY_FLOAT, min_size=6, max_size=8), NEAR_JOINTS, SPEEDS, SPEEDS,
       st.sampled_from(sorted(ALL_LIMITS)))
def test_no_raw_target_passes_outside_the_limits(target, q, dq, held, name):
    limits = ALL_LIMITS[name]
    state = arm_state(q, dq, q_desired=np.array(held))
    try:
        safe = safety(limits).guard_target(np.array(target), state)
    except SafetyError:
        return
    assert_within(safe.q, np.array(q), np.array(dq), limits, limits.max_lead)


def test_an_allowed_action_passes_unchanged():
    safe = check('joint_position', [*(Q + 0.1), 0.7])
    assert np.array_equal(safe.q, Q + 0.1)
    assert safe.clamps == ()


@pytest.mark.parametrize(('space', 'values', 'reason'), [
    ('joint_position', [*(Q + turn(1, 0.5)), 0.0], ClampReason.STEP_LIMIT),
    ('joint_velocity', [1.5, 0, 0, 0, 0, 0, 0, 0.0], ClampReason.ACTION_RANGE),
    ('cartesian_velocity', [0, 0, 2, 0, 0, 0, 0.0], ClampReason.ACTION_RANGE),
])
def test_a_clamp_says_what_was_asked_what_was_sent_and_why(space, values, reason):
    clamp, = check(space, values).clamps
    assert clamp.reason is reason
    assert clamp.asked != clamp.sent
    assert 'allowed' in clamp.detail


def test_a_step_is_shortened_along_its_direction():
    lead = np.array([0.5, -0.25, 0.1, 0, 0, 0, 0])
    assert np.allclose(check('joint_position', [*(Q + lead), 0]).q - Q, lead * 0.4)


def test_a_joint_stops_at_its_limit():
    q = Q.copy()
    q[3] = -2.9
    safe = check('joint_velocity', [0, 0, 0, -1, 0, 0, 0, 0], q)
    assert safe.q[3] == -2.97
    assert safe.clamps[0].reason is ClampReason.JOINT_LIMIT


def test_an_arm_at_its_speed_limit_is_not_driven_on():
    dq = [2.2, 0, 0, 0, 0, 0, 0]
    driven = check('joint_velocity', [1, 0, 0, 0, 0, 0, 0, 0], dq=dq)
    assert driven.q[0] == Q[0]
    assert driven.clamps[0].reason is ClampReason.VELOCITY_LIMIT
    assert check('joint_velocity', [-1, 0, 0, 0, 0, 0, 0, 0], dq=dq).q[0] < Q[0]


def test_a_target_that_pulls_too_hard_is_brought_nearer():
    weak = limits_for('panda', {'torque': [10.0] * 7})
    safe = check('joint_velocity', [1, 0, 0, 0, 0, 0, 0, 0], limits=weak)
    assert safe.clamps[0].reason is ClampReason.TORQUE_LIMIT
    assert np.max(np.abs(bounds.spring_torque(safe.q - Q, Q))) == pytest.approx(10.0)


def test_at_the_wall_of_the_workspace_the_arm_slides_along_it():
    q = Q
    low = limits_for('panda', {'workspace_lower': [-1.0, -1.0, 0.45]})
    for _ in range(12):
        safe = check('cartesian_velocity', [0, 0.5, -0.8, 0, 0, 0, 0], q, low)
        q = safe.q
    place = kinematics.flange_pose(q)
    assert place[2] == pytest.approx(0.45, abs=2e-3)
    assert place[1] > 0.2
    assert ClampReason.WORKSPACE in {c.reason for c in safe.clamps}


def test_an_arm_outside_the_workspace_may_only_come_back():
    low = limits_for('panda', {'workspace_lower': [-1.0, -1.0, 0.5]})
    with pytest.raises(SafetyError, match='outside the workspace'):
        check('cartesian_velocity', [0, 0, -1, 0, 0, 0, 0], limits=low)
    assert outside(check('cartesian_velocity', [0, 0, 1, 0, 0, 0, 0], limits=low).q, low) == 0.0


def test_an_arm_far_outside_its_joint_limits_needs_a_hand():
    with pytest.raises(SafetyError, match=r'joint 2 is at 2\.000 rad.*by hand'):
        check('joint_velocity', np.zeros(8), [0, 2.0, 0, -2, 0, 2, 0])


@pytest.mark.parametrize('values', [
    np.full(8, np.nan), [np.inf, *([0.0] * 7)], np.zeros(7), np.zeros(9), np.zeros((1, 8)), [],
    0.0, None, ['x'] * 8, [[0.0], 1, 2, 3, 4, 5, 6, 7]])
def test_values_without_meaning_are_refused(values):
    action = Action(values, ActionSpace.JOINT_VELOCITY)
    with pytest.raises(SafetyError, match='joint_velocity action'):
        safety().check(action, arm_state())


@pytest.mark.parametrize(('changes', 'message'), [
    ({'mode': RobotMode.REFLEX}, 'REFLEX: recover'),
    ({'mode': RobotMode.USER_STOPPED}, 'USER_STOPPED: recover'),
    ({'q': np.full(7, np.nan)}, 'measured q must be 7 finite numbers'),
    ({'dq': np.zeros(6)}, 'measured dq must have 7'),
])
def test_a_state_that_cannot_be_trusted_stops_everything(changes, message):
    state = dataclasses.replace(arm_state(), **changes)
    with pytest.raises(SafetyError, match=message):
        safety().guard_target(Q, state)


def test_an_old_state_is_the_fault_of_its_driver():
    state = dataclasses.replace(arm_state(), stamp_ns=NOW_NS - 500_000_000)
    with pytest.raises(StaleData, match=r'arm state is 0\.500 s old'):
        safety().guard_target(Q, state)


def test_a_goal_is_taken_or_refused_but_never_altered():
    safe = safety(limits_for('panda', {'workspace_lower': [0.2, -1.0, 0.1]}))
    assert np.array_equal(safe.check_goal(Q, arm_state(Q + 0.3)), Q)
    with pytest.raises(SafetyError, match='goal of joint 2'):
        safe.check_goal(Q + turn(2, 3.0), arm_state())
    with pytest.raises(SafetyError, match='leaves the workspace'):
        safe.check_goal(Q + turn(1, 2.5), arm_state())
    assert np.array_equal(safe.check_goal(Q, arm_state(Q + turn(1, 2.5))), Q)


@pytest.mark.parametrize(('robot', 'changes', 'message'), [
    ('pnada', {}, "Did you mean 'panda'"),
    ('panda', {'velocty': [1] * 7}, "Did you mean 'velocity'"),
    ('panda', {'velocity': [1.0] * 6}, 'needs 7 numbers'),
    ('fr3', {'workspace_lower': [2.0, 0.0, 0.0]}, 'must lie below'),
    ('fr3', {'max_lead': -1.0}, 'must be positive'),
    ('fr3', {'torque': [float('nan')] * 7}, 'must be finite'),
])
def test_limits_of_a_station_are_checked(robot, changes, message):
    with pytest.raises(ConfigError, match=message):
        limits_for(robot, changes)
