"""How much of the time an arm stands still because its policy has not answered, for the bench."""

import contextlib
import dataclasses
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
from arena_robot.policy.timing import TimedPolicy
from arena_robot.session.loop.pacing import Pacer

LATENCIES_S, CHUNKS = (0.05, 0.15, 0.3, 0.5), (8, 10, 15)
PERIOD_S = 1.0 / CONTROL_RATE_HZ


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

    def infer(self, observation, episode=''):
        time.sleep(self.takes_s)
        return Chunk(np.zeros((self.spec.chunk_length, 8), np.float32), self.spec.action_space)

    def reset(self, episode=''):
        pass


def unavoidable(length, takes_s, pipelined):
    """
    Return the steps per chunk in which the arm must wait for answers that take ``takes_s``.

    A pipelined policy is asked at the earliest one step after its last chunk began, and without
    what was executed since its query a chunk has (``length`` + 1) / 2 actions then.
    """
    steps = takes_s / PERIOD_S
    return max(0.0, steps - (length - 1) / 2) if pipelined else steps


def waits(takes_s, length, pipelined, seconds):
    """Return waited steps per chunk, the share of the time, and the median of the answers."""
    clock, seen = SystemClock(), nothing_seen()
    with GrpcPolicyServer(Slow(takes_s, length, pipelined)) as server, \
            connect(server.address) as remote:
        policy = TimedPolicy(remote)
        executor = ChunkExecutor(policy, control_rate_hz=CONTROL_RATE_HZ)
        with contextlib.closing(executor):
            pacer, waited_s, first, step = Pacer(CONTROL_RATE_HZ, clock), 0.0, None, 0
            while first is None or time.monotonic() < first + seconds:
                pacer.wait()
                taken = executor.step(dataclasses.replace(seen, step=step), 'e')
                if first is None:
                    first = time.monotonic()
                else:
                    waited_s += taken.inference_s
                step += 1
            chunks, median_s = policy.latency().count - 1, policy.latency().p50_s
    return waited_s / PERIOD_S / max(1, chunks), waited_s / seconds, median_s


def print_waits(seconds):
    """Print how long the arm waits for slow policies; return whether it is as good as it can."""
    cells = [(takes_s, length, pipelined) for pipelined in (True, False)
             for takes_s in LATENCIES_S for length in CHUNKS]
    with ThreadPoolExecutor(len(cells)) as pool:
        found = list(pool.map(lambda cell: waits(*cell, seconds), cells))
    print(f'stand-still at {CONTROL_RATE_HZ:g} Hz after the first chunk, {seconds:g} s each, '
          'over gRPC on this machine')
    print('  | pipelined | latency | chunk | waited steps per chunk | unavoidable | share |')
    good = True
    for (takes_s, length, pipelined), (steps, share, median_s) in zip(cells, found, strict=True):
        least = unavoidable(length, median_s, pipelined)
        good &= steps <= (least + 1.0 if least else 0.5)
        print(f'  | {"yes" if pipelined else "no":>9} | {takes_s * 1e3:4.0f} ms | {length:5} | '
              f'{steps:22.2f} | {least:11.1f} | {share * 100:4.1f} % |')
    print(f'target: half a step where it is avoidable, else within 1 step of it: '
          f'{"met" if good else "MISSED"}')
