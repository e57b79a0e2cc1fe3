"""Toy policies on real sockets, and a study that is run in front of them."""

import contextlib
import threading
from pathlib import Path

import numpy as np

from arena_robot.blind.clips import TrialClips
from arena_robot.blind.desk import StudyDesk
from arena_robot.blind.router import ArmPool, BlindRouter
from arena_robot.blind.study import Design, StartCondition, Study, StudyArm
from arena_robot.blind.trials import study_seed
from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.clock import ManualClock
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.policy.timing import made_up_observation

SPEC = PolicySpec(action_space=ActionSpace.JOINT_VELOCITY, chunk_length=10, image_size=(24, 32),
                  session_id=True)
SEEN = made_up_observation(SPEC)
INSTRUCTION = 'put the cup in the bowl'
YES = {'success': True, 'progress': 100}


class Numbered:
    """Answers each query with ten actions of its own number; waits while ``may`` is not set."""

    def __init__(self, number, spec=SPEC):
        self.number, self.spec = number, spec
        self.may, self.asked = threading.Event(), threading.Semaphore(0)
        self.may.set()
        self.episodes, self.resets, self.fails = [], [], False

    def infer(self, observation, episode=''):
        self.episodes.append(episode)
        self.asked.release()
        assert self.may.wait(20.0)
        if self.fails:
            raise RuntimeError(f'cuda error in checkpoint {self.number}')
        return Chunk(np.full((10, 8), self.number, np.float32), self.spec.action_space)

    def reset(self, episode=''):
        self.resets.append(episode)


def study(*names, rounds=3, design=Design.PAIRS, **more):
    return Study('cups', tuple(StudyArm(name) for name in names),
                 (StartCondition('start', instruction=INSTRUCTION, start='the cup on the tape'),),
                 'the cup stands in the bowl', design=design, repeats=rounds, **more)


def number_of(chunk):
    """Return the number of the policy that made a chunk."""
    numbers = set(np.asarray(chunk.actions).ravel().tolist())
    assert len(numbers) == 1
    return numbers.pop()


class Wall(ManualClock):
    """A clock whose time of day is set by ``set_by_ns``."""

    set_by_ns = 0

    def now_ns(self):
        return super().now_ns() + self.set_by_ns


class Lab(contextlib.ExitStack):
    """A study with its desk and router; ``policies`` are (protocol, policy) by name."""

    def __init__(self, folder, policies, plan=None, addresses=None):
        super().__init__()
        self.folder, self.home = Path(folder) / 'study', Path(folder) / 'seeds'
        self.folder.mkdir(exist_ok=True)
        self.policies = {name: policy for name, (_, policy) in policies.items()}
        self.servers = {name: self.enter_context(SERVERS[protocol](policy))
                        for name, (protocol, policy) in policies.items()}
        self.addresses = addresses or {
            name: server.address for name, server in self.servers.items()}
        self.study = plan or study(*self.addresses)
        self.clock, self.slept_ns, self.told = Wall(10**9), 0, []
        self.pool = self.enter_context(ArmPool(self.addresses, CallOptions()))
        self.clips = self.enter_context(TrialClips(self.folder, self.clock, self.told.append))
        self.desk = self.enter_context(self.new_desk())
        self.router = self.enter_context(BlindRouter(
            self.desk, self.pool, ServeOptions(), ServeOptions(), self.clips))
        self.ports = {what: address.rpartition(':')[2]
                      for what, address in self.router.addresses.items()}

    def new_desk(self, **more):
        return StudyDesk(self.folder, self.study, study_seed(self.folder, self.home), self.clock,
                         self.told.append, self.pool.prepare, slept=lambda: self.slept_ns,
                         clips=self.clips, **more)

    def address(self, protocol):
        return {'openpi': f"openpi://127.0.0.1:{self.ports['openpi and RoboArena']}",
                'grpc': f"grpc://127.0.0.1:{self.ports.get('gRPC')}"}[protocol]

    def press(self, name, **words):
        self.desk.move(name, words)
        return self.desk.state.phase.value

    def sleep(self, seconds):
        """Let the computer sleep: the time of day goes on, the steady clock does not."""
        self.slept_ns += seconds * 10**9
        self.clock.set_by_ns += seconds * 10**9

    def on_turn(self):
        """Return the policy whose trial is next, which only a test may know."""
        return self.policies[self.desk.trial.arm]

    def run_trial(self, **words):
        self.press('start')
        self.press('end')
        if self.press('score', **{**YES, **words}) == 'judging':
            self.press('judge', preference='A', reason='it was faster')
