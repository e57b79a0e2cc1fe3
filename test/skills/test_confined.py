"""Generated code runs confined: what the paper writes works, everything else is refused."""

import numpy as np
import pytest

from arena_robot.core.errors import CodeRefused
from arena_robot.skills.confined.code import PrimitiveCode, RewardCode

FOLD = """
def _compute_reward(self):
    # near the seat
    eef_pos = get_eef_pos(self)[0]
    seat_pos = get_link_state(self, "Chair", "seat")
    reward_near = -np.linalg.norm(eef_pos - seat_pos)
    angle = get_joint_state(self, "Chair", "fold")
    low, high = get_joint_limit(self, "Chair", "fold")
    diff = np.abs(angle - low)
    reward = reward_near + 5 * -diff
    success = diff < 0.1 * (high - low)
    return reward, success
"""


class FakeView:
    """A chair whose seat is at joint position ``angle``."""

    def __init__(self, angle=0.05):
        self.angle = angle

    def get_eef_pos(self):
        return np.array([0.4, 0.0, 0.3]), np.zeros(3)

    def get_position(self, object_name):
        return np.array([0.5, 0.1, 0.02])

    def get_link_state(self, object_name, link_name):
        return np.array([0.4, 0.0, 0.1])

    def get_joint_state(self, object_name, joint_name):
        if joint_name != 'fold':
            raise CodeRefused(f"{object_name} has no joint '{joint_name}'")
        return self.angle

    def get_joint_limit(self, object_name, joint_name):
        return 0.0, 1.0

    def get_bounding_box(self, object_name):
        return np.zeros(3), np.ones(3)

    def get_bounding_box_link(self, object_name, link_name):
        return np.zeros(3), np.ones(3)


class FakeHand:
    """Notes the motions."""

    def __init__(self):
        self.made = []

    def grasp_object(self, object_name):
        self.made.append(object_name)

    def grasp_object_link(self, object_name, link_name):
        self.made.append((object_name, link_name))

    def release_grasp(self):
        self.made.append('release')

    def check_grasped(self, object_name, link_name=''):
        return (object_name, link_name) in self.made


def reward(*lines):
    return RewardCode('def _compute_reward(self):\n' + ''.join(f'    {line}\n' for line in lines))


def test_the_papers_reward_runs():
    code = RewardCode(FOLD)
    assert code(FakeView(0.05)) == (pytest.approx(-0.45), True)
    assert code(FakeView(0.5)) == (pytest.approx(-2.7), False)


@pytest.mark.parametrize(('line', 'value'), [
    ('x = [1, 2, 3]\n    for i in range(3):\n        y += x[i] ** 2', 14.0),
    ('y = np.array([3.0, 4.0])[1]', 4.0),
    ('y = 1 if in_bbox(self, get_position(self, "Cup"), '
     '*0) else 2', None),
    ('y = np.clip(np.max(get_position(self, "Cup")[:2]), 0, 0.2)', 0.2),
    ('if not (1 < 2 < 3 and y > 0 or False):\n        y = -len((1, 2))', -2.0),
    ('y = 1.0 if in_bbox(self, [0.5, 0.5, 0.5], get_bounding_box(self, "Cup")[0], '
     'get_bounding_box(self, "Cup")[1]) else 2.0', 1.0),
    ('y = np.dot([1, 2], (3, 4)) + min(5, 6) + 7 // 2 + 7 % 4', 22.0),
])
def test_arithmetic(line, value):
    lines = ('y = 0.0', line, 'return y, True')
    if value is None:
        with pytest.raises(CodeRefused):
            reward(*lines)
    else:
        assert reward(*lines)(FakeView()) == (pytest.approx(value), True)


def test_primitives_run_and_say_whether_they_succeeded():
    hand = FakeHand()
    code = PrimitiveCode('rgbs, final_state = grasp_object_link(self, "Chair", "seat")\n'
                         'success = check_grasped(self, "Chair", "seat")')
    assert code(hand) is True
    assert hand.made == [('Chair', 'seat')]
    release = PrimitiveCode('rgbs, final_state = release_grasp(self)\n'
                            'success = not check_grasped(self, "Chair")')
    assert release(hand) is True
    assert hand.made[-1] == 'release'


# Refused when read, or at the latest when run; the first list as the body of a reward.
HOSTILE = [
    'import os', 'from os import system', '__import__("os").system("true")',
    'eval("1")', 'exec("1")', 'open("/etc/passwd").read()', 'compile("1", "", "eval")',
    'globals()', 'locals()', 'vars(self)', 'dir(self)', 'getattr(self, "world")',
    'setattr(self, "world", 1)', 'self.world = None', 'x = self.world', 'del self',
    'x = self', 'x = np', 'np.load("a.npy")', 'np.save("a", 1)', 'np.fromfile("a")',
    'np.zeros(1000000)', 'np.ones((9999, 9999))', 'np.memmap("a")', 'np.ctypeslib',
    'np.linalg.norm.__globals__', 'x = ().__class__.__bases__', 'x = "".format(1)',
    'x = "%s" % self', 'x = f"{self}"', 'x = lambda: 1', 'def f(): pass', 'class A: pass',
    'while True: pass', 'for i in range(10 ** 7): pass', 'for i in range(99):\n        '
    'for j in range(99):\n            x = i * j', 'x = [i for i in range(9)]',
    'x = {i: i for i in range(9)}', 'x = sum(i for i in range(9))', 'x = 9 ** 9 ** 9',
    'x = 2.0 ** 999', 'x = 1e300 * 1e300', 'x = 1e11 * 1e11', 'x = 1 / 0', 'x = np.log(0)',
    'x = "a" * 9999999', 'x = [0] * [1, 2]', 'x = (1, 2) + (3, 4)', 'x = 1 << 9999',
    'global x', 'nonlocal x', 'assert False', 'raise ValueError', 'try:\n        x = 1\n    '
    'except: pass', 'with open("a") as f: pass', 'yield 1', 'x = await f()', 'print("x")',
    'input()', 'breakpoint()', 'exit()', 'x = (y := 1)', 'x = grasp_object(self, "a")',
    'get_position(1, "a")', 'get_position(self)', 'get_position(self, name="a")',
    'x = get_position(self, "a")\n    x[0] = 5', 'get_position = 1', 'self = 1', '__x = 1',
    'x = get_joint_state(self, "Chair", "other")', 'x = get_position(self, 5)',
    'x = unknown + 1', 'x = ' + '(' * 25 + '1' + ',)' * 25 + '\n    y = np.array(x)',
    'x = ' + '-' * 60 + '1', 'x = ' + '+'.join('1' * 900), 'x = 1 @ 2', 'x = 1 is 1',
    'x = 1 in (1, 2)', 'x = ...', 'x = None', 'x = 1j', 'x = b"a"', 'x: int = 1', 'x = y = 1',
    'x = (1, 2, 3)[::2]', 'x = np.array([])', 'x = "' + 'a' * 99 + '"', 'np.abs(-1).real',
    'x = np.array([1])\n    x.fill(2)', 'a, b = 1', 'a, b = 1, 2, 3', 'x = (1, 2)[7]',
    'x = (1, 2)[0.5]', 'x = np.sqrt(-1)', 'if np.array([1, 2]): pass',
    'x = ' + '-' * 5900 + '1', 'x = 1' + '+1' * 2900, 'x = ' + 'lambda:' * 800 + '1',
    'x = a' + '.a' * 2900, 'x = ' + '[' * 199 + ']' * 199, 'x = 0x' + 'f' * 5000,
]
WHOLE = ['', 'x = 1', '_compute_reward = 1', 'def other(self):\n    return 0, True',
         'def _compute_reward():\n    return 0, True',
         'def _compute_reward(self, world):\n    return 0, True',
         'def _compute_reward(self, *a):\n    return 0, True',
         'def _compute_reward(self, a=open("x")):\n    return 0, True',
         '@open\ndef _compute_reward(self):\n    return 0, True',
         'def _compute_reward(self) -> open("x"):\n    return 0, True',
         'async def _compute_reward(self):\n    return 0, True',
         'def _compute_reward(self):\n    return 0, True\nimport os',
         'def _compute_reward(self):\n    pass', 'def _compute_reward(self):\n    return 0',
         'def _compute_reward(self):\n    return 0, 1',
         'def _compute_reward(self):\n    return 0, np.array([True, True])',
         'def _compute_reward(self):\n    return np.array([1, 2]), True',
         'def _compute_reward(self):\n    return "a", True', 'def _compute_reward(self)',
         '#' * 7000, '\0', '(' * 3000]


@pytest.mark.parametrize('line', HOSTILE)
def test_hostile_lines_are_refused(line):
    with pytest.raises(CodeRefused):
        reward(line, 'return 0.0, True')(FakeView())


@pytest.mark.parametrize('text', WHOLE)
def test_what_is_no_reward_is_refused(text):
    with pytest.raises(CodeRefused):
        RewardCode(text)(FakeView())


def test_code_that_is_never_reached_is_checked_too():
    with pytest.raises(CodeRefused, match='line 3'):
        reward('if False:', '    import os', 'return 0.0, True')


@pytest.mark.parametrize('text', [
    'rgbs, s = grasp_object(self, "a")', 'success = 1', 'success = get_eef_pos(self)',
    'rgbs, s = grasp_object(self, "a")\nsuccess = rgbs', 'return True',
    'for i in range(9):\n    release_grasp(self)\nsuccess = True',
    'grasp_object(self)\nsuccess = True', 'release_grasp(self, "a")\nsuccess = True'])
def test_primitive_code_is_confined(text):
    with pytest.raises(CodeRefused):
        PrimitiveCode(text)(FakeHand())


def test_deeply_shared_lists_cost_no_time():
    lines = ['x = (1, 1)', *(['x = (x, x, x, x)'] * 40), 'y = np.array(x)', 'return 0.0, True']
    with pytest.raises(CodeRefused, match='nested'):
        reward(*lines)(FakeView())


def test_a_reward_is_no_primitive():
    RewardCode(FOLD)
    with pytest.raises(CodeRefused):
        PrimitiveCode(FOLD)
