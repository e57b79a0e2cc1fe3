"""How much of the time an arm stands still because its policy has not answered, for the bench."""

import contextlib
import dataclasses
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.observation import ArmState, GripperState, Observation
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.chunks import ChunkExecutor
from arena_robot.policy.connect import connect
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.timing import TimedPolicy, summarise
from arena_robot.session.loop.cadence import ACT_AFTER, CadencedActions

LATENCIES_S, CHUNKS = (0.05, 0.15, 0.3, 0.5), (8, 10, 15)


def nothing_seen():
    """Return an observation without pictures."""
    state = np.zeros(7)
    arm = ArmState(0, state, state, state, state, np.zeros(6), state)
    return Observation(0, arm, GripperState(0, 0.0, 0.085, 0.0), 'tidy up', 0, {})


class Slow:
    """Answers after ``takes_s`` with a chunk of zeros; needs no pictures."""

    def __init__(self, takes_s, length, pipelined):
        self.takes_s = takes_s
        self.spec = PolicySpec(ActionSpace.JOINT_VELOCITY, None, False, 0, chunk_length=length,
                               pipelined=pipelined)

    def chunk(self):
        """Return an answer."""
        return Chunk(np.zeros((self.spec.chunk_length, 8), np.float32), self.spec.action_space)

    def infer(self, observation, episode=''):
        time.sleep(self.takes_s)
        return self.chunk()

    def reset(self, episode=''):
        pass


class ExactlySlow(Slow):
    """The same in a time of its own, which passes when the loop sleeps; it is its clock too."""

    every_step = True

    def __init__(self, takes_s, length, pipelined):
        super().__init__(takes_s, length, pipelined)
        self.now_ns, self.answers, self.executor = 0, {}, None

    def at_step(self, observation, episode, query):
        if query.answer is not None:
            self.answers.setdefault(query.answer, self.now_ns + round(self.takes_s * 1e9))

    def steady_ns(self):
        return self.now_ns

    def sleep_until_steady_ns(self, stamp_ns):
        self.executor.reset('another')    # what was sent has arrived then
        for answer, ready_ns in self.answers.items():
            if ready_ns <= stamp_ns and not answer.done():
                self.now_ns = ready_ns
                answer.set_result(self.chunk())
        self.now_ns = stamp_ns

    def latency(self):
        return summarise([self.takes_s] * len(self.answers))


class Timed(TimedPolicy):
    """A clock beside it."""

    steady_ns = staticmethod(SystemClock().steady_ns)
    sleep_until_steady_ns = staticmethod(SystemClock().sleep_until_steady_ns)
    executor = None


def unavoidable(length, steps, pipelined):
    """
    Return the steps per chunk in which the arm must wait for answers that take ``steps`` steps.

    A pipelined policy is asked at the earliest one step after its last chunk began, so a chunk
    lasts ``steps`` + 1 steps at least, and without what was executed since its query it has
    (``length`` + 1) / 2 actions then.
    """
    return max(0.0, steps + 1 - (length + 1) / 2) if pipelined else float(steps)


def waits(policy, seconds):
    """Return waited steps per chunk, share of the steps, both after the first chunk, chunks."""
    period_s, seen = 1.0 / CONTROL_RATE_HZ, nothing_seen()
    policy.executor = executor = ChunkExecutor(
        policy, now_s=lambda: policy.steady_ns() * 1e-9, control_rate_hz=CONTROL_RATE_HZ,
        in_time_s=ACT_AFTER * period_s)
    with contextlib.closing(executor):
        actions = CadencedActions(executor, policy, period_s, 10.0)
        begin_ns, first, steps = policy.steady_ns(), None, round(seconds / period_s)
        for step in range(steps):
            begun_ns = begin_ns + round(step * period_s * 1e9)
            policy.sleep_until_steady_ns(begun_ns)
            actions.next(dataclasses.replace(seen, step=step), 'e', begun_ns)
            if first is None and actions.waited <= step:
                first = (step, actions.waited, policy.latency().count)
    waited, chunks = actions.waited - first[1], policy.latency().count - first[2]
    return waited / max(1, chunks), waited / (steps - first[0])


def exact_waits(takes_s, length, pipelined, seconds):
    """Return what was waited on a machine and a network that cost no time."""
    policy = ExactlySlow(takes_s, length, pipelined)
    return *waits(policy, seconds), takes_s


def real_waits(takes_s, length, pipelined, seconds):
    """Return what was waited on this machine over gRPC, and the median of the answers."""
    with GrpcPolicyServer(Slow(takes_s, length, pipelined)) as server, \
            connect(server.address) as remote:
        policy = Timed(remote)
        return *waits(policy, seconds), policy.latency().p50_s


def print_waits(measure, seconds, words):
    """Print how long the arm waits for slow policies; return whether it is as good as it can."""
    cells = [(takes_s, length, pipelined) for pipelined in (True, False)
             for takes_s in LATENCIES_S for length in CHUNKS]
    with ThreadPoolExecutor(len(cells)) as pool:
        found = list(pool.map(lambda cell: measure(*cell, seconds), cells))
    print(f'stand-still at {CONTROL_RATE_HZ:g} Hz after the first chunk, {seconds:g} s each, '
          f'{words}')
    print('  | pipelined | latency | chunk | waited steps per chunk | unavoidable | share |')
    good = True
    for (takes_s, length, pipelined), (steps, share, median_s) in zip(cells, found, strict=True):
        late_s = median_s - ACT_AFTER / CONTROL_RATE_HZ
        least = unavoidable(length, max(0, math.ceil(late_s * CONTROL_RATE_HZ)), pipelined)
        good &= steps <= (least + 1.0 if least else 0.0)
        print(f'  | {"yes" if pipelined else "no":>9} | {takes_s * 1e3:4.0f} ms | {length:5} | '
              f'{steps:22.2f} | {least:11.1f} | {share * 100:4.1f} % |')
    print(f'target: none where it is avoidable, else within 1 step of it: '
          f'{"met" if good else "MISSED"}')
