import dataclasses
import re

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_episodes import random_arm

from arena_robot.core.action import Action, ActionSpace, ClampReason
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError, SafetyError, StaleData
from arena_robot.core.observation import ArmState, RobotMode
from arena_robot.robots.arms import FR3, HERE, PANDA, RESET_JOINTS, ArmLimits, Body, Chain, Shape
from arena_robot.safety import bounds, kinematics
from arena_robot.safety.bounds import Links, outside
from arena_robot.safety.embodiments import EMBODIMENTS, arm_of
from arena_robot.safety.filter import Safety
from arena_robot.safety.limits import limits_for
from arena_robot.safety.models import read_chain

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
    safe = check(space, values[:space.size(7)], q, limits, dq)
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


def folding(shapes, **changes):
    """Return the limits of three links of 0.3 m that turn in a plane."""
    ahead = (*HERE[:3], 0.3, *HERE[4:])
    chain = Chain((HERE, ahead, ahead), ((0.0, 0.0, 1.0),) * 3, (False,) * 3, ahead, 1,
                  lambda: Body(shapes))
    wide = {name: (way * 3.1,) * 3 for name, way in (
        ('joint_lower', -1), ('joint_upper', 1), ('hardware_lower', -1), ('hardware_upper', 1))}
    return ArmLimits(**wide, velocity=(2.0,) * 3, torque=(50.0,) * 3, stiffness=(0.0,) * 3,
                     flange_stiffness=(0.0,) * 6, chain=chain, **changes)


# A capsule of 0.02 m about each moving link, along its x axis.
RODS = tuple(Shape(link, 'capsule', (0.02, 0.13), (0.0, 0.0, 1.0, 0.15, 0.0, 1.0, 0.0, 0.0,
                                                   -1.0, 0.0, 0.0, 0.0)) for link in (1, 2, 3))


def arm_at(q, held=None):
    return arm_state(q, 0.0 * np.asarray(q), q_desired=np.asarray(q if held is None else held))


def test_an_arm_does_not_fold_onto_itself_and_unfolds_from_anywhere():
    limits = folding(RODS)
    links, safe = Links(limits), safety(limits)
    q = np.array([0.0, np.pi / 2, np.pi / 2])
    assert links.pairs == [(0, 2)]
    assert links.gaps(q, 1.0) == pytest.approx(0.3 - 2 * 0.02, abs=1e-6)
    fold, clamped = np.array([0.0, 0.1, 0.1]), []
    for _ in range(10):
        bounded = safe.guard_target(q + fold, arm_at(q))
        q, clamped = bounded.q, bounded.clamps or clamped
        assert links.gaps(q, 1.0) >= 0.02
    assert links.gaps(q, 1.0) < 0.0215
    assert clamped[0].reason is ClampReason.SELF_COLLISION
    assert re.fullmatch(r'links 1 and 3 would come to -?0\.\d+ m from each other, allowed are '
                        r'0\.020', clamped[0].detail)
    nearer = q + 0.05 * fold
    assert links.gaps(nearer, 1.0) < 0.02
    away = nearer - 0.01 * fold
    assert links.gaps(away, 1.0) < 0.02
    assert np.array_equal(safe.guard_target(away, arm_at(nearer)).q, away)
    assert np.array_equal(safe.guard_target(nearer + fold, arm_at(nearer)).q, nearer)
    # An arm that sags below the target that it tracks does not come nearer step by step.
    assert links.gaps(safe.guard_target(nearer + fold, arm_at(nearer, q)).q, 1.0) >= 0.02
    off = safety(folding(RODS, self_distance=0.0)).guard_target(nearer + fold, arm_at(nearer))
    assert np.array_equal(off.q, nearer + fold)


def test_a_planned_way_on_which_an_arm_meets_itself_is_refused():
    safe, goal = safety(folding(RODS)), np.array([0.0, 2.6, 2.6])
    straight = np.array([0.0, 0.1, 0.1])
    with pytest.raises(SafetyError, match='on the way to the goal links 1 and 3 would come to'):
        safe.check_goal(goal, arm_at(straight))
    half = np.array([0.0, 1.5, 1.5])
    assert np.array_equal(safe.check_goal(half, arm_at(straight)), half)
    times = np.linspace(0.0, 9.0, 200)
    way = straight + times[:, None] / 9.0 * (goal - straight)
    with pytest.raises(SafetyError, match=r'at \d\.\d\d s links 1 and 3 would come to'):
        safe.check_path(times, way, arm_at(straight))
    safe.check_path(times[:90], way[:90], arm_at(straight))


def shaped(joints, seed):
    """Return the limits of a drawn arm whose links have drawn shapes, and where it rests."""
    robot, rng = random_arm(joints, seed), np.random.default_rng(seed)
    shapes = []
    for link in range(joints + 1):
        kind = ('capsule', 'box', 'mesh', 'sphere')[int(rng.integers(4))]
        size = tuple(rng.uniform(0.01, 0.04, {'capsule': 2, 'box': 3, 'sphere': 1}.get(kind, 0)))
        points = rng.uniform(-0.06, 0.06, (12, 3)).tolist() if kind == 'mesh' else []
        pose = np.column_stack([np.eye(3), rng.normal(0.0, 0.05, 3)]).ravel()
        shapes.append(Shape(link, kind, size, tuple(pose), tuple(map(tuple, points))))
    chain = dataclasses.replace(robot.limits.chain, body=lambda: Body(tuple(shapes)))
    limits, rest = dataclasses.replace(robot.limits, chain=chain), np.array(robot.reset_joints)
    links = Links(limits)
    near = np.flatnonzero(links.gaps(rest, 1.0) < limits.self_distance)
    body = Body(tuple(shapes), tuple(links.pairs[k] for k in near))
    return dataclasses.replace(limits, chain=dataclasses.replace(chain, body=lambda: body)), rest


def wander(limits, q, rng, steps):
    """Follow drawn targets; return how many were cut. Links stay apart, and can always move."""
    links, safe, cut = Links(limits), safety(limits), 0
    wanted = np.zeros(len(q))
    for step in range(steps):
        if step % 5 == 0:
            wanted = rng.uniform(-1.0, 1.0, len(q)) * limits.scale * limits.max_lead
        bounded = safe.guard_target(q + wanted, arm_at(q))
        if any(clamp.reason is ClampReason.SELF_COLLISION for clamp in bounded.clamps):
            cut += 1
            ways = (0.05 * rng.normal(size=len(q)) for _ in range(20))
            assert any(not np.array_equal(safe.guard_target(q + way, arm_at(q)).q, q)
                       for way in ways)
        for part in np.linspace(0.0, 1.0, 9):
            gaps = links.gaps(q + part * (bounded.q - q), 1.0)
            assert np.all(gaps >= (limits.self_distance - 1e-6 if part == 1.0 else 0.0))
        assert outside(bounded.q, limits) == 0.0
        q = bounded.q
    return cut


def test_links_of_drawn_arms_never_come_nearer_than_they_may():
    cut = 0
    for seed in range(40):
        limits, rest = shaped(3 + seed % 12, seed)
        cut += wander(limits, rest, np.random.default_rng(seed), 20)
    assert cut > 20


def test_a_way_through_a_link_is_cut_though_its_ends_are_apart_and_no_other_way_is():
    through = clear = 0
    for seed in range(20):
        limits, rest = shaped(3 + seed % 6, seed)
        links, rng = Links(limits), np.random.default_rng(seed)
        for _ in range(10):
            goal = np.clip(rest + rng.uniform(-1.5, 1.5, len(rest)), limits.q_min, limits.q_max)
            gaps = [np.min(links.gaps(rest + part * (goal - rest), 1.0), initial=1.0)
                    for part in np.linspace(0.0, 1.0, 25)]
            if gaps[-1] >= limits.self_distance and min(gaps) < 0.0:
                through += 1
                assert links.share(rest, goal)[0] < 1.0
            if min(gaps) >= limits.self_distance + 0.01:
                clear += 1
                assert links.share(rest, goal) == (1.0, '')
    assert through > 3
    assert clear > 50


@pytest.mark.parametrize('name', [name for name in EMBODIMENTS.names() if name != 'droid'])
def test_links_of_shipped_models_never_come_nearer_than_they_may(name):
    try:
        robot = arm_of(name)
    except ConfigError as error:
        pytest.skip(str(error))
    assert wander(robot.limits, np.array(robot.reset_joints), np.random.default_rng(1), 200) > 9


# A link with each shape, fixed parts, and what is left out: what is only seen, and a finger.
SHAPED = """<mujoco><asset><mesh name="roof" file="roof.obj" scale="1 2 .5" refpos=".1 0 .2"
refquat=".8 0 .6 0"/><mesh name="wall" file="wall.stl" scale=".5 .5 .5"/></asset>
<worldbody><geom type="plane" size="1 1 1"/><body name="base" pos="1 2 3" euler="0 0 90">
<geom type="box" size=".1 .2 .05"/>
<geom type="cylinder" size=".05 .1" pos="0 .2 0" euler="30 0 0"/>
<body name="a" pos="0 0 .3"><joint name="turn" axis="0 1 1" pos=".05 0 .1" range="-90 90"/>
<geom type="mesh" mesh="wall" pos=".1 0 0" euler="0 40 0"/><body name="lid" pos="0 .1 0"
euler="0 0 50"><geom type="ellipsoid" size=".05 .1 .02"/></body>
<body name="b" pos=".3 0 .2"><joint name="push" type="slide" axis="1 0 0" range="-.2 .3"/>
<geom type="sphere" size=".06"/><geom type="box" size="9 9 9" contype="0" conaffinity="0"/>
<body name="c" pos=".2 .1 0" euler="20 0 40"><joint name="last" axis="0 0 1" range="-60 120"/>
<geom type="mesh" mesh="roof" pos="0 .3 .3" euler="0 10 0"/>
<geom type="capsule" size=".03" fromto="0 0 0 .2 .3 .1"/>
<body name="finger"><joint name="grip" axis="1 0 0"/><geom type="box" size="9 9 9"/></body>
</body></body></body></body></worldbody></mujoco>"""


def test_shapes_of_a_model_are_where_mujoco_has_them(tmp_path):
    corners = np.array([[0, 0, 0], [.2, 0, 0], [0, .3, 0], [0, 0, .4], [.02, .02, .02]])
    (tmp_path / 'roof.obj').write_text(
        ''.join(f'v {x} {y} {z}\n' for x, y, z in corners)
        + 'f 1 2 3\nf 1 4 2\nf 1 3 4\nf 2 4 3\n')
    rows = np.zeros(4, [('normal', '<f4', 3), ('corners', '<f4', (3, 3)), ('end', '<u2')])
    rows['corners'] = corners[[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]]
    (tmp_path / 'wall.stl').write_bytes(bytes(80) + (4).to_bytes(4, 'little') + rows.tobytes())
    (tmp_path / 'made.xml').write_text(SHAPED, encoding='utf-8')
    read = read_chain(tmp_path / 'made.xml', ('turn', 'push', 'last'), 'base', 'c')
    assert [(shape.link, shape.kind) for shape in read.chain.body().shapes] == [
        (0, 'box'), (0, 'cylinder'), (1, 'mesh'), (1, 'ellipsoid'), (2, 'sphere'), (3, 'mesh'),
        (3, 'capsule')]
    links = Links(dataclasses.replace(folding(()), chain=read.chain))
    model = mujoco.MjModel.from_xml_path(str(tmp_path / 'made.xml'))
    data = mujoco.MjData(model)
    own = [i for i in range(model.ngeom) if model.geom_size[i][0] != 9.0 and i]
    for q in ([0.0, 0.0, 0.0], [0.4, 0.1, 1.2], [-1.0, 0.3, -0.5]):
        data.qpos[:3] = q
        mujoco.mj_kinematics(model, data)
        expected = [mujoco.mj_geomDistance(model, data, own[i], own[j], 2.0, None)
                    for i, j in links.pairs]
        np.testing.assert_allclose(links.gaps(np.array(q), 2.0), expected, atol=1e-5)
    drawn = 'contype="0" conaffinity="0" size='
    one = SHAPED.replace('size=".1 .2 .05"', drawn + '".1 .2 .05"')
    for text, kinds in ((one, ['cylinder']),
                        (one.replace('size=".05 .1"', drawn + '".05 .1"'), ['box', 'cylinder'])):
        (tmp_path / 'made.xml').write_text(text, encoding='utf-8')
        read = read_chain(tmp_path / 'made.xml', ('turn', 'push', 'last'), 'base', 'c')
        assert [shape.kind for shape in read.chain.body().shapes if shape.link == 0] == kinds
    (tmp_path / 'roof.obj').unlink()
    read = read_chain(tmp_path / 'made.xml', ('turn', 'push', 'last'), 'base', 'c')
    assert [shape.kind for shape in read.chain.body().shapes if shape.link == 3] == ['capsule']
