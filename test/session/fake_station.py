"""Made-up parts on a clock that only the sleeper moves."""

from concurrent.futures import Future

import numpy as np

from arena_robot.core.action import ActionSpace, ArmCommand, Chunk, SafeCommand
from arena_robot.core.errors import PolicyUnavailable, SafetyError
from arena_robot.core.observation import ArmState, GripperState, Image
from arena_robot.drivers.base import ArmDescription, StereoFrame
from arena_robot.policy.base import PolicySpec
from arena_robot.robots.arms import PANDA


class LoopClock:
    """Sleeping is what makes the time pass; ``set_ns`` is by how much somebody set the clock."""

    def __init__(self):
        self.now, self.set_ns = 1_000_000_000, 0

    def now_ns(self):
        return self.now + self.set_ns

    def steady_ns(self):
        return self.now

    def sleep_until_ns(self, stamp_ns):
        self.now = max(self.now, stamp_ns - self.set_ns)

    def sleep_until_steady_ns(self, stamp_ns):
        self.now = max(self.now, stamp_ns)


class FakeArm:
    """
    Is at once where an action sends it; refuses the action number ``refuses``, from 1.

    It refuses everything while it is halted.
    """

    def __init__(self, clock, robot=PANDA):
        self.clock, self.log, self.fail, self.robot = clock, [], None, robot
        self.q = np.zeros(7) if robot is PANDA else np.array(robot.reset_joints)
        self.acted, self.refuses, self.halted = 0, None, False
        self.backend = 'fake'

    def state(self, max_age_s=0.1):
        if self.fail:
            raise self.fail
        return ArmState(self.clock.now_ns() - 1_000_000, self.q, *[np.zeros(len(self.q))] * 3,
                        np.zeros(6), self.q)

    def wait_state(self, timeout_s):
        return self.state()

    def command(self, command):
        self.log.append(('q', command.q))
        self.q = command.q
        return command

    def description(self):
        return ArmDescription(self.robot, self.backend, self.robot.reset_joints)

    def act(self, action, stamp_ns):
        self.acted += 1
        made = Future()
        if self.halted or self.acted == self.refuses:
            made.set_exception(SafetyError('halted' if self.halted else 'too near the table'))
        else:
            made.set_result(SafeCommand(self.command(ArmCommand(self.target(action), stamp_ns)).q))
        return made

    def target(self, action):
        return action.values[:-1]

    def move_to(self, q, duration_s=None):
        if self.halted:
            raise SafetyError('halted')
        self.log.append(('move', q))
        self.q = q
        return 1.0

    def stop(self):
        self.log.append(('stop', None))

    def halt(self):
        self.halted = True
        self.stop()

    def resume(self):
        self.halted = False


class FakeGripper:
    def __init__(self, clock):
        self.clock, self.log = clock, []

    def state(self, max_age_s=0.2):
        return GripperState(self.clock.now_ns() - 2_000_000, 0.0, 0.085, 0.0)

    def wait_state(self, timeout_s):
        return self.state()

    def command(self, command):
        self.log.append(command.position)
        return command


class FakeCamera:
    serial = '1'
    fail = None

    def __init__(self, clock):
        self.clock = clock

    def frame(self, max_age_s=0.2):
        if self.fail:
            raise self.fail
        image = Image(np.zeros((4, 4, 3), np.uint8), self.clock.now_ns() - 30_000_000)
        return StereoFrame(image, image, 0)

    def wait_frame(self, timeout_s):
        return self.frame()

    def arrivals(self):
        return []


class FakePolicy:
    spec = PolicySpec()

    def __init__(self, clock, length=4, thinks_s=0.02):
        self.clock, self.length, self.thinks_s = clock, length, thinks_s
        self.asked, self.resets, self.fail_at, self.hang = [], [], None, None

    def infer(self, observation, episode=''):
        self.asked.append((observation.step, episode))
        if len(self.asked) == self.fail_at:
            raise PolicyUnavailable('gone')
        if self.hang:
            self.hang.wait(5.0)
        self.clock.now += round(self.thinks_s * 1e9)
        actions = np.full((self.length, 8), len(self.asked), np.float32)
        actions[:, 7] = np.linspace(0.4, 0.7, self.length)
        return Chunk(actions, ActionSpace.JOINT_POSITION)

    def reset(self, episode=''):
        self.resets.append(episode)


class Sink:
    def __init__(self):
        self.steps, self.chunks, self.at = [], [], {}

    def chunk(self, index, step, chunk):
        self.chunks.append((index, step, len(chunk)))

    def step(self, step, observation):
        self.steps.append(step)
        self.at.get(step.index, lambda: None)()
