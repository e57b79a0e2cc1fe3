"""The table of action spaces, and everything that must handle each of its rows."""

import re
import subprocess
import sys
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from test_filter import arm_state, safety

from arena_robot.core.action import Action, ActionSpace, handled
from arena_robot.core.errors import SafetyError
from arena_robot.robots.action_spaces import SPACES
from arena_robot.safety import action_spaces

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
    others = {one: to_target for one, to_target in action_spaces.TARGETS.items()
              if one is not space}
    monkeypatch.setattr(action_spaces, 'TARGETS', others)
    with pytest.raises(SafetyError, match=f"'{space.value}' is known to safety"):
        safety().check(Action(np.zeros(space.size), space), arm_state())


def test_a_table_with_a_gap_names_it():
    gap = {space: 0 for space in ActionSpace if space is not ActionSpace.JOINT_VELOCITY}
    with pytest.raises(NotImplementedError, match=r'here does not handle .*joint_velocity'):
        handled(gap, 'here')
    assert handled(dict.fromkeys(ActionSpace, 0), 'here') == dict.fromkeys(ActionSpace, 0)


@pytest.mark.parametrize('space', ActionSpace)
def test_the_rows_are_whole(space):
    row = SPACES[space.value]
    assert len(row.names) == len(row.units) == len(row.largest) == space.size - 1
    assert min(row.largest) > 0.0
    assert (set(row.units) == {''}) is row.is_velocity
    numbers = [other.wire for other in SPACES.values()]
    assert len(set(numbers)) == len(numbers)
    assert 0 not in numbers


def test_the_message_for_other_senders_names_the_same_spaces():
    text = (ROOT / 'arena_msgs' / 'msg' / 'PolicyAction.msg').read_text(encoding='utf-8')
    found = re.findall(r'^string (\w+)="(\w+)"', text, re.MULTILINE)
    assert found == [(space.name, space.value) for space in ActionSpace]
