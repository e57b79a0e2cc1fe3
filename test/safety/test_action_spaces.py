"""Action spaces as joint targets, and everything that must handle each row of their table."""

import re
import subprocess
import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_episodes import random_arm
from scipy.optimize import lsq_linear
from scipy.spatial.transform import Rotation
from test_any_arm import assert_within, written
from test_filter import NOW_NS, arm_state, safety

from arena_robot.cli.main import main
from arena_robot.core.action import Action, ActionSpace, handled
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError, SafetyError
from arena_robot.robots.action_spaces import SPACES, ActionLayout, Slice, SliceMeaning
from arena_robot.robots.arms import (
    FR3,
    FRANKA_DH,
    FRANKA_FLANGE_M,
    MOST_JOINTS,
    PANDA,
    RESET_JOINTS,
)
from arena_robot.safety import action_spaces as spaces
from arena_robot.safety import kinematics
from arena_robot.safety.embodiments import agreed_drive, arm_of
from arena_robot.safety.filter import Safety

Q = np.array(RESET_JOINTS)
POSE = kinematics.flange_pose(Q)
LIMITS = PANDA.limits
JOINTS = st.tuples(*(st.floats(lo, hi) for lo, hi in
                     zip(LIMITS.joint_lower, LIMITS.joint_upper, strict=True))).map(np.array)
ROOT = Path(__file__).parents[2]
# Executes a module of the package with some of its lines changed, in the place of the real one.
PATCH = """
import importlib, importlib.util, sys

def patch(name, *changes):
    spec = importlib.util.find_spec(name)
    source = spec.loader.get_source(name)
    for old, new in changes:
        assert source.count(old) == 1, (name, old)
        source = source.replace(old, new + old)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(source, name, 'exec'), module.__dict__)
    parent, _, last = name.rpartition('.')
    setattr(importlib.import_module(parent), last, module)

MEMBER = ("    JOINT_POSITION = 'joint_position'\\n", "    JOINT_NUDGE = 'joint_nudge'\\n")
ROW = ("    'joint_position': SpaceRow(\\n",
       "    'joint_nudge': SpaceRow(5, JOINT_NUMBERS, ('rad',) * DOF, (0.1,) * DOF, "
       "False, '7 angles from the measured joints, rad'),\\n")
FUNCTION = ("TARGETS = handled({\\n", "def _nudge(values, q, limits):\\n"
            "    return q + values, _NONE, _NONE\\n\\n\\n")
ENTRY = ("    ActionSpace.JOINT_POSITION: _joint_position,\\n",
         "    ActionSpace.JOINT_NUDGE: _nudge,\\n")

def add_row_and_member():
    patch('arena_robot.robots.action_spaces', ROW)
    patch('arena_robot.core.action', MEMBER)
"""


def vector(size, largest=3.0):
    return st.lists(st.floats(-largest, largest), min_size=size, max_size=size).map(np.array)


@given(vector(7))
def test_joint_velocity_is_scaled_as_a_whole(v):
    n = max(abs(x) / 1.0 for x in v)
    expected = Q + 0.2 * (v / n if n > 1 else v)
    assert np.max(np.abs(spaces.joint_velocity_target(v, Q) - expected)) < 1e-9


@given(vector(6))
def test_cartesian_velocity_is_droids_pose(v):
    lin, rot = v[:3], v[3:]
    lin = lin / np.linalg.norm(lin) if np.linalg.norm(lin) > 1 else lin
    rot = rot / np.linalg.norm(rot) if np.linalg.norm(rot) > 1 else rot
    turned = Rotation.from_euler('xyz', 0.15 * rot) * Rotation.from_euler('xyz', POSE[3:])
    pose = kinematics.add_poses(spaces.cartesian_motion(v), POSE)
    assert np.max(np.abs(pose[:3] - (POSE[:3] + 0.075 * lin))) < 1e-9
    assert np.max(np.abs(kinematics.rotation_of(pose[3:]) - turned.as_matrix())) < 1e-9


@given(vector(3, 0.8), st.tuples(st.floats(-3, 3), st.floats(-1.4, 1.4), st.floats(-3, 3)))
def test_cartesian_position_is_droids_velocity(p, angles):
    target = np.concatenate([p, angles])
    turn = Rotation.from_euler('xyz', angles) * Rotation.from_euler('xyz', POSE[3:]).inv()
    v = spaces.cartesian_position_velocity(target, POSE)
    assert np.max(np.abs(v[:3] - (p - POSE[:3]) / 0.075)) < 1e-9
    assert np.max(np.abs(Rotation.from_euler('xyz', 0.15 * v[3:]).as_matrix()
                         - turn.as_matrix())) < 1e-9


def test_the_gripper_closes_only_above_one_half():
    assert [spaces.binarised(g) for g in (0.0, 0.5, 0.5000001, 1.0)] == [0.0, 0.0, 1.0, 1.0]


@given(vector(6, 0.25))
def test_cartesian_targets_follow_the_asked_motion_away_from_limits(v):
    q_des, asked, reached = spaces.cartesian_target(v, Q, PANDA.limits)
    assert np.linalg.norm(reached - asked) < 0.03 * np.linalg.norm(asked) + 1e-3
    moved = kinematics.pose_difference(kinematics.flange_pose(q_des), POSE)
    assert np.linalg.norm(moved[:3] - asked[:3]) < 0.004


@given(vector(6, 1.0), JOINTS)
def test_cartesian_targets_keep_the_distance_to_joint_limits(v, q):
    for limits in (PANDA.limits, FR3.limits):
        q_des = spaces.cartesian_target(v, q, limits)[0]
        low, high = kinematics.step_bounds(q, limits, 0.2)
        assert np.all(q_des - q >= low - 1e-9)
        assert np.all(q_des - q <= high + 1e-9)


@settings(max_examples=300)
@given(vector(6, 1.0), JOINTS)
def test_the_bounded_solver_finds_the_minimum(v, q):
    J = kinematics.jacobian(kinematics.frames(q))
    low, high = kinematics.step_bounds(q, PANDA.limits, 0.2)
    motion = spaces.cartesian_motion(v)
    x = kinematics.joint_step(motion, q, J, PANDA.limits, 0.2)
    A = np.vstack([J, kinematics.REGULARISATION * np.eye(7)])
    b = np.concatenate([motion, -kinematics.REGULARISATION * kinematics.NULLSPACE_GAIN * q])
    best = lsq_linear(A, b, (low - 1e-9, high + 1e-9), method='bvls')
    assert np.sum((A @ x - b) ** 2) <= 2.0 * best.cost * (1 + 1e-6) + 1e-10


def test_a_pose_is_reached_in_a_few_steps_and_held():
    target = POSE + np.array([0.1, -0.08, -0.12, 0.1, 0.0, 0.3])
    q = Q
    for _ in range(40):
        q = spaces.target_function(ActionSpace.CARTESIAN_POSITION)(target, q, PANDA.limits)[0]
    left = kinematics.pose_difference(target, kinematics.flange_pose(q))
    assert np.linalg.norm(left[:3]) < 1e-3
    assert np.linalg.norm(left[3:]) < 5e-3


def run(code):
    """Run ``code`` in a new interpreter; return its exit status and the end of what it wrote."""
    done = subprocess.run([sys.executable, '-c', PATCH + code], cwd=ROOT, capture_output=True,
                          text=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


class Foreign(str, Enum):
    """A space of another table: as long as a cartesian one."""

    TORQUE = 'joint_torque'

    @property
    def size(self):
        return 7

    @property
    def is_velocity(self):
        return False


@pytest.mark.parametrize(('code', 'says'), [
    ("patch('arena_robot.core.action', MEMBER)",
     'robots.action_spaces.SPACES does not handle the action space joint_nudge'),
    ('add_row_and_member(); import arena_robot.safety.filter',
     'safety.action_spaces.TARGETS does not handle the action space joint_nudge'),
    ('add_row_and_member(); import arena_robot.policy.grpc.wire',
     'policy/proto/arena_policy.proto does not handle the action space joint_nudge'),
])
def test_what_does_not_handle_a_new_space_cannot_be_imported(code, says):
    status, text = run(code)
    assert status != 0
    assert f'NotImplementedError: {says}' in text.splitlines()[-1]


def test_a_new_space_is_a_row_and_a_function():
    status, text = run("""
add_row_and_member()
patch('arena_robot.safety.action_spaces', FUNCTION, ENTRY)
import numpy as np
from arena_robot.core.action import Action, ActionSpace
from arena_robot.core.clock import ManualClock
from arena_robot.core.observation import ArmState
from arena_robot.safety.filter import Safety
from arena_robot.robots.arms import PANDA, RESET_JOINTS
q = np.array(RESET_JOINTS)
arm = ArmState(10**10, q, np.zeros(7), np.zeros(7), np.zeros(7), np.zeros(6), q)
action = Action(np.array([0.05, -0.5, 0, 0, 0, 0, 0, 1.0]), ActionSpace('joint_nudge'))
safe = Safety(PANDA.limits, ManualClock(10**10)).check(action, arm)
print(np.round(safe.q - q, 6).tolist(), safe.clamps[0].detail)
""")
    assert status == 0, text
    assert text == ('[0.05, -0.1, 0.0, 0.0, 0.0, 0.0, 0.0] '
                    'joint_nudge[1] is -0.5, allowed is ±0.1')


def test_an_action_of_a_space_that_safety_does_not_know_is_refused():
    with pytest.raises(SafetyError, match="'joint_torque' is known to safety, only joint_posit"):
        safety().check(Action(np.zeros(7), Foreign.TORQUE), arm_state())


@pytest.mark.parametrize('space', ActionSpace)
def test_a_space_that_is_taken_out_of_safetys_table_is_refused(space, monkeypatch):
    others = {name: to_target for name, to_target in spaces.TARGETS.items()
              if name is not space}
    monkeypatch.setattr(spaces, 'TARGETS', others)
    with pytest.raises(SafetyError, match=f"'{space.value}' is known to safety"):
        safety().check(Action(np.zeros(space.size(7)), space), arm_state())


def test_a_table_with_a_gap_names_it():
    gap = {space: 0 for space in ActionSpace if space is not ActionSpace.JOINT_VELOCITY}
    with pytest.raises(NotImplementedError, match=r'here does not handle .*joint_velocity'):
        handled(gap, 'here')
    assert handled(dict.fromkeys(ActionSpace, 0), 'here') == dict.fromkeys(ActionSpace, 0)


@pytest.mark.parametrize('space', ActionSpace)
def test_the_rows_are_whole(space):
    row = SPACES[space.value]
    assert len(row.names) == len(row.units) == len(row.largest) == space.size(7) - 1
    assert min(row.largest) > 0.0
    assert (set(row.units) == {''}) is row.is_velocity
    numbers = [other.wire for other in SPACES.values()]
    assert len(set(numbers)) == len(numbers)
    assert 0 not in numbers


def test_the_message_for_other_senders_names_the_same_spaces():
    text = (ROOT / 'arena_msgs' / 'msg' / 'PolicyAction.msg').read_text(encoding='utf-8')
    spaces_named = re.findall(r'^string (\w+)="(\w+)"', text, re.MULTILINE)
    assert spaces_named == [(space.name, space.value) for space in ActionSpace]


ANGLES = st.tuples(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1)).map(np.array)


def dh_chain(q):
    """Compute the flange by the textbook product of single rotations and translations."""
    T = np.eye(4)
    for (a, d, alpha), angle in zip(FRANKA_DH, q, strict=True):
        step = np.eye(4)
        step[:3, :3] = (Rotation.from_euler('x', alpha) * Rotation.from_euler('z', angle)
                        ).as_matrix()
        step[:3, 3] = Rotation.from_euler('x', alpha).apply([0, 0, d])
        step[0, 3] += a
        T = T @ step
    T[:3, 3] += FRANKA_FLANGE_M * T[:3, 2]
    return T


@given(JOINTS)
def test_flange_is_the_product_of_the_dh_steps(q):
    assert np.allclose(kinematics.frames(q)[kinematics.FLANGE], dh_chain(q), atol=1e-12)


def test_a_stretched_arm_has_the_published_reach():
    pose = kinematics.flange_pose(np.zeros(7))
    assert pose[:3] == pytest.approx([0.088, 0.0, 0.333 + 0.316 + 0.384 - 0.107], abs=1e-12)
    assert abs(pose[3]) == pytest.approx(np.pi)


def test_the_reset_pose_looks_straight_down_in_front_of_the_base():
    pose = kinematics.flange_pose(np.array(RESET_JOINTS))
    assert 0.3 < pose[0] < 0.6
    assert pose[1] == pytest.approx(0.0, abs=1e-12)
    assert kinematics.rotation_of(pose[3:])[:, 2] == pytest.approx([0, 0, -1], abs=1e-9)


@given(JOINTS, st.sampled_from([kinematics.ELBOW, kinematics.FLANGE]))
def test_the_jacobian_is_the_derivative(q, link):
    J = kinematics.jacobian(kinematics.frames(q), link)
    h = 1e-6
    for i in range(7):
        up, down = (kinematics.frames(q + s * h * np.eye(7)[i])[link] for s in (1, -1))
        assert np.allclose((up[:3, 3] - down[:3, 3]) / (2 * h), J[:3, i], atol=1e-8)
        if link == kinematics.FLANGE:
            spin = Rotation.from_matrix(up[:3, :3] @ down[:3, :3].T).as_rotvec() / (2 * h)
            assert np.allclose(spin, J[3:, i], atol=1e-7)


@given(ANGLES)
def test_angles_are_scipys_fixed_axis_xyz(rpy):
    assert np.allclose(kinematics.rotation_of(rpy), Rotation.from_euler('xyz', rpy).as_matrix(),
                       atol=1e-12)
    assert np.allclose(kinematics.rpy_of(kinematics.rotation_of(rpy)), rpy, atol=1e-9)


@pytest.mark.parametrize('pitch', [np.pi / 2, -np.pi / 2])
def test_looking_straight_up_keeps_the_rotation(pitch):
    rotation = kinematics.rotation_of(np.array([0.3, pitch, 0.8]))
    back = kinematics.rpy_of(rotation)
    assert back[2] == 0.0
    assert np.allclose(kinematics.rotation_of(back), rotation, atol=1e-9)


@given(JOINTS, JOINTS)
def test_pose_difference_undoes_add_poses(q, p):
    source, target = kinematics.flange_pose(q), kinematics.flange_pose(p)
    back = kinematics.add_poses(kinematics.pose_difference(target, source), source)
    assert np.allclose(back[:3], target[:3], atol=1e-12)
    assert np.allclose(kinematics.rotation_of(back[3:]), kinematics.rotation_of(target[3:]),
                       atol=1e-9)


ANGLES, WAYS = {'rad': 1.0, 'deg': np.pi / 180}, {'m': 1.0, 'cm': 0.01, 'mm': 0.001}


def drawn_slice(rng, name, size, meaning, units):
    """Return a slice in one of the units, and how much a number of it is in rad or m."""
    unit = str(rng.choice(list(units)))
    per_s = f'({unit})/s' if ' ' in unit else f'{unit}/s'
    one = float(rng.uniform(0.1, 3.0))
    return Slice(name, size, meaning, per_s if meaning is SliceMeaning.VELOCITY else unit,
                 'base' if 'flange' in name else '', one), one * units[unit]


def droids(meaning, of_joints, change, base, limits, rate):
    """Return the action of DROID's that asks for a ``change`` in rad and m (a second)."""
    turns = ~np.array(limits.chain.sliding)
    if meaning is SliceMeaning.DELTA_STATE:
        return (ActionSpace.JOINT_VELOCITY, change / np.where(turns, 0.2, 0.075)) if of_joints \
            else (ActionSpace.CARTESIAN_VELOCITY, change / ([0.075] * 3 + [0.15] * 3))
    space = ActionSpace.JOINT_POSITION if of_joints else ActionSpace.CARTESIAN_POSITION
    change = change / rate if meaning is SliceMeaning.VELOCITY else change
    if meaning is SliceMeaning.ABSOLUTE:
        return space, change
    if of_joints:
        return space, base + change
    pose = kinematics.flange_pose(base, limits.chain)
    turned = Rotation.from_euler('xyz', change[3:]) * Rotation.from_euler('xyz', pose[3:])
    return space, np.concatenate([pose[:3] + change[:3], turned.as_euler('xyz')])


@settings(max_examples=300, deadline=None)
@given(st.integers(1, MOST_JOINTS), st.integers(0, 10 ** 6), st.sampled_from(SliceMeaning),
       st.booleans(), st.floats(0.01, 3.0))
def test_an_action_in_a_layout_is_the_same_command_as_in_droids_space(
        joints, seed, meaning, of_joints, size):
    limits, rng = random_arm(joints, seed).limits, np.random.default_rng(seed)
    q, rate = np.array(random_arm(joints, seed).reset_joints), float(rng.uniform(5, 50))
    kinds = set(limits.chain.units)
    units = {'rad or m': 1.0} if len(kinds) > 1 else ANGLES if 'rad' in kinds else WAYS
    drawn = [drawn_slice(rng, 'arm.joint_position', joints, meaning, units)] if of_joints else [
        drawn_slice(rng, 'arm.flange_position', 3, meaning, WAYS),
        drawn_slice(rng, 'arm.flange_rotation', 3, meaning, ANGLES)]
    factor = np.concatenate([np.full(part.size, factor) for part, factor in drawn])
    if of_joints and len(kinds) > 1 and meaning is SliceMeaning.DELTA_STATE:
        factor = np.where(limits.chain.sliding, 0.375 * factor, factor)
    opened, closed = rng.normal(size=2)
    one, grip = float(rng.uniform(0.5, 2.0)), float(rng.random())
    numbers = size * rng.normal(size=len(factor))
    told = {part.name: numbers[at:at + part.size] for (part, _), at in zip(
        drawn, (0, 3), strict=False)}
    slices = [part for part, _ in drawn] + [Slice('hand', 1, one=one)]
    told['hand'] = [(opened + grip * (closed - opened)) / one]
    order = rng.permutation(len(slices))
    layout = ActionLayout(tuple(slices[i] for i in order), rate)
    base = np.clip(q + 0.1 * rng.normal(size=joints), limits.q_min, limits.q_max)
    drive = spaces.layout_drive(layout, 'arm', limits, {'hand': (opened, closed)})
    values = drive.action(np.concatenate([told[slices[i].name] for i in order]), base)
    space, wanted = droids(meaning, of_joints, numbers * factor, base, limits, rate)
    assert drive.space is space
    assert values[-1] == pytest.approx(grip, abs=1e-9)
    arm, guard = arm_state(q, np.zeros(joints)), Safety(limits, ManualClock(NOW_NS))
    safe = guard.check(Action(values, space), arm)
    expected = guard.check(Action(np.append(wanted, grip), space), arm)
    np.testing.assert_allclose(safe.q, expected.q, atol=1e-7)
    assert_within(safe.q, q, np.zeros(joints), limits, limits.max_joint_delta)


JOINTS_7 = Slice('arm.joint_position', 7, unit='rad')
PLACE, TURN = (Slice(f'arm.flange_{what}', 3, unit=unit, frame='base')
               for what, unit in (('position', 'm'), ('rotation', 'rad')))
GRIP = Slice('gripper', 1)


@pytest.mark.parametrize(('slices', 'says'), [
    ([JOINTS_7, Slice('other.joint_position', 7, unit='rad'), GRIP],
     'it moves other too, and a station drives one arm: arm'),
    ([JOINTS_7], 'one gripper, with the meaning absolute; has 0'),
    ([JOINTS_7, GRIP, GRIP], 'one gripper, with the meaning absolute; has 2'),
    ([JOINTS_7, replace(GRIP, meaning=SliceMeaning.DELTA_TARGET)], 'with the meaning absolute'),
    ([PLACE, GRIP], 'flange_rotation with one meaning; has flange_position'),
    ([JOINTS_7, PLACE, TURN, GRIP], 'has flange_position, flange_rotation, joint_position'),
    ([PLACE, replace(TURN, meaning=SliceMeaning.DELTA_STATE), GRIP], 'with one meaning; has'),
    ([replace(JOINTS_7, unit='m'), GRIP], "arm.joint_position is 'm', known are rad, deg"),
    ([replace(JOINTS_7, meaning=SliceMeaning.VELOCITY), GRIP], "'rad', known are rad/s, deg/s"),
    ([replace(PLACE, unit=''), TURN, GRIP], "flange_position is '', known are m, cm, mm"),
    ([replace(PLACE, frame='tool'), TURN, GRIP], "flange_position is 'tool', known is base"),
])
def test_a_layout_that_cannot_be_driven_says_why(slices, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        spaces.layout_drive(ActionLayout(tuple(slices)), 'arm', LIMITS, {'gripper': (0.0, 1.0)})


def test_the_layouts_of_the_page_are_driven(tmp_path, capsys):
    page = (ROOT / 'docs' / 'extending.md').read_text(encoding='utf-8')
    shown = yaml.safe_load(page.partition('test_action_spaces.py reads them -->\n```yaml\n')[2]
                           .partition('```')[0])
    path = written(tmp_path, next(arm for arm in (random_arm(5, seed) for seed in range(99))
                                  if not any(arm.limits.chain.slides)))
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | shown))
    assert main(['embodiment', 'check', str(path)]) == 0
    said = capsys.readouterr().out
    for name, space in (('degrees', 'joint_position'), ('steps', 'joint_position'),
                        ('speeds', 'joint_position'), ('hand_steps', 'cartesian_position')):
        assert f"driven by turning it into {space}; a policy's spec says layout='made/{name}'" \
            in said
    base = np.array(arm_of(str(path)).reset_joints)
    for name, wanted in (('degrees', np.full(5, np.pi)), ('steps', base + 180.0),
                         ('speeds', base + 12.0)):
        numbers = agreed_drive(str(path), f'made/{name}', 15.0).action(
            np.array([180.0] * 5 + [25.0]), base)
        np.testing.assert_allclose(numbers, [*wanted, 0.75])
