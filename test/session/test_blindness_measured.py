"""
How well a classifier names the policy from all that a person at the station can read.

Many short rollouts of four policies run through the control loop and the node's own messages. A
classifier learns from everything in them but the motion of the arm: sizes, times of publication,
stamps, counters, the spec that a slot token opens, what the journal has of an episode, the log.
Another learns from the station's traffic with the relay: at which steps a query is sent, how
large it is, when its answer comes, how large that is. On a blind rollout each may be right no more
often than chance and five points. The same classifiers on a loop that waits for its policies name
nearly every one, so this test can fail.

The bound: of 800 rollouts, each classified by a model that has not seen it, a share p was
right. The one-sided 95 % Clopper-Pearson bound of p must be below 1/4 + 0.05.
"""

import asyncio
import logging
import math
import re
from concurrent import futures
from random import Random

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper
from jumping_loop import JumpingLoop
from rclpy.serialization import serialize_message
from scipy.stats import beta

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import Slot
from arena_robot.nodes.session import messages
from arena_robot.policy import chunks
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.endpoint import step_request
from arena_robot.policy.grpc.relayed import resolve
from arena_robot.server.relay import canonical
from arena_robot.server.step_answers import StepAnswers
from arena_robot.session.loop import rollout as control_loop
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.rollout import Rollout, RolloutConfig, RolloutRequest

STEPS, EACH, EACH_RAW = 24, 200, 50
MARGIN = 0.05
# Name: chunk length, seconds of an inference, what it writes into its spec as a watermark.
POLICIES = {
    'crimson-7b': (8, 0.09, PolicySpec(chunk_length=8)),
    'azure-fast': (10, 0.09, PolicySpec(chunk_length=10, control_rate_hz=15.0000001)),
    'viridian': (8, 0.16, PolicySpec(chunk_length=8, control_rate_hz=14.9999999)),
    'ochre': (15, 0.30, PolicySpec(chunk_length=15)),
}
CHANCE = 1.0 / len(POLICIES)


class NoisyClock:
    """Time of a loop, from a time of its own; every sleep ends a little late."""

    def __init__(self, seed, loop):
        self.loop, self.random = loop, Random(seed)
        self.base = 1_790_000_000_000_000_000 + seed * 977 - round(loop.time() * 1e9)

    @property
    def now(self):
        return self.base + round(self.loop.time() * 1e9)

    def now_ns(self):
        return self.now

    def steady_ns(self):
        return self.now

    def sleep_until_steady_ns(self, stamp_ns):
        late_s = self.random.expovariate(1 / 200e-6)
        self.loop.run_until((max(self.now, stamp_ns) - self.base) * 1e-9 + late_s)

    sleep_until_ns = sleep_until_steady_ns


class Timed:
    """A policy that thinks for its own time, more or less; the loop waits for it."""

    def __init__(self, name, clock):
        self.length, self.thinks_s, self.spec = POLICIES[name]
        self.clock, self.traffic = clock, []

    def thought(self):
        """Return how long an inference takes, and its answer."""
        chunk = Chunk(np.zeros((self.length, 8), np.float32), ActionSpace.JOINT_POSITION)
        return (self.thinks_s * self.clock.random.lognormvariate(0.0, 0.1),
                wire.chunk_to_wire(chunk, 0.0, 0.0))

    def infer(self, observation, episode=''):
        took_s, reply = self.thought()
        self.clock.sleep_until_steady_ns(self.clock.now + round(took_s * 1e9))
        self.traffic.append((observation.step, 0, 0.0, took_s, reply.ByteSize()))
        return wire.chunk_from_wire(reply, PolicySpec())

    def reset(self, episode=''):
        pass


class Relayed(Timed):
    """The same one behind the relay's answers to queries of every step, over a made-up network."""

    every_step = True

    def __init__(self, name, clock):
        super().__init__(name, clock)
        self.answers, self.began_s = StepAnswers(), clock.loop.time()

    def at_step(self, observation, episode, query):
        self.clock.loop.create_task(self.asked(observation, query))

    async def asked(self, observation, query):
        loop, sent_s = self.clock.loop, self.clock.loop.time()
        request = step_request(wire.observation_to_bytes(observation), '', query, 9.5)
        await self.travel()
        reply = await self.answers.answer(('s', 'A'), request.every_step, loop.time(), self.think)
        await self.travel()
        self.traffic.append((observation.step, request.ByteSize(), sent_s - self.began_s,
                             loop.time() - sent_s, reply.ByteSize()))
        resolve(query, reply, self.spec)

    async def think(self):
        took_s, reply = self.thought()
        await asyncio.sleep(took_s)
        return reply

    async def travel(self):
        await asyncio.sleep(self.clock.random.lognormvariate(math.log(2e-3), 0.3))


class AtOnce:
    """A worker without a thread."""

    def submit(self, call):
        future = futures.Future()
        future.set_result(call())
        return future

    def end(self):
        pass


class Spy:
    """Hears what the node publishes, as numbers; never what the arm is to do."""

    def __init__(self, clock):
        self.clock, self.steps, self.chunks, self.space = clock, [], [], ''

    def chunk(self, index, step, chunk):
        self.space = chunk.space.value
        now_ns = messages.chunk_stamp(self.clock.now)
        message = messages.chunk_message(index, step, chunk, Slot.A, now_ns, 'base')
        self.chunks.append((self.clock.now * 1e-9 % 1e4, now_ns * 1e-9 % 1e4, index, step,
                            len(serialize_message(message))))

    def step(self, step, observation):
        message = messages.step_message(step, observation, Slot.A, self.space, 'base')
        stamp_s = message.header.stamp.sec % 10_000 + message.header.stamp.nanosec * 1e-9
        self.steps.append((self.clock.now * 1e-9 % 1e4, stamp_s, message.chunk_index,
                           message.chunk_step, message.loop_s, message.late_s,
                           message.inference_s, message.observation_age_s, message.skew_s,
                           len(serialize_message(message))))


class Log(logging.Handler):
    """Keeps the numbers of the newest line."""

    def emit(self, record):
        self.numbers = [float(one) for one in re.findall(r'[-\d.]+(?:e-?\d+)?',
                                                         record.getMessage())]


def rolled(name, seed, blind, loop, log):
    """Return what can be read of one rollout, and what its traffic shows, as vectors."""
    clock = NoisyClock(seed, loop)
    policy, spy = (Relayed if blind else Timed)(name, clock), Spy(clock)
    parts = Parts(FakeArm(clock), FakeGripper(clock), {'left': FakeCamera(clock)})
    job = RolloutRequest('s1', Slot.A, 'put the cube in the bowl')
    began = clock.now
    episode = Rollout(job, parts, policy, clock, spy,
                      RolloutConfig(max_steps=STEPS, cadenced=blind)).run()
    spec = canonical(policy.spec) if blind else policy.spec
    seen = np.concatenate([told(spy), [
        episode.steps, len(episode.detail), (episode.ended_ns - episode.started_ns) * 1e-9,
        (clock.now - began) * 1e-9, spec.chunk_length, (spec.control_rate_hz - 15.0) * 1e6],
        log.numbers])
    clock.sleep_until_steady_ns(clock.now + 1_000_000_000)    # the last answers
    return seen, traffic(policy)


def traffic(policy):
    """
    Return what each step shows on the network; 0 without a query.

    The size of the query, when it was sent, how long its answer took, the size of that.
    """
    seen = np.zeros((STEPS, 4))
    for step, *values in policy.traffic:
        seen[step] = values
    return np.append(seen.ravel(), len(policy.traffic))


def told(spy):
    steps, seen = np.array(spy.steps), np.zeros((STEPS, 5))
    seen[:len(spy.chunks)] = spy.chunks
    seen[:, :2] = np.where(seen[:, :1] > 0, seen[:, :2] - steps[0, :1], 0.0)
    times = np.diff(steps[:, :2], axis=0)
    lags = steps[:, 0] - steps[:, 1]
    return np.concatenate([steps[:, 2:].ravel(), times.ravel(), np.sort(times, axis=0).ravel(),
                           lags, seen.ravel(), [len(spy.chunks)]])


def accuracy(features, labels):
    """Return the share that two classifiers name right, each of two halves by the other."""
    halves = np.arange(len(labels)) % 2
    right = {'centroid': 0, 'linear': 0}
    for half in (0, 1):
        learn, ask = halves == half, halves != half
        centre, spread = features[learn].mean(0), features[learn].std(0) + 1e-9
        known, asked = (features[learn] - centre) / spread, (features[ask] - centre) / spread
        middles = np.array([known[labels[learn] == k].mean(0) for k in range(len(POLICIES))])
        near = ((asked[:, None] - middles) ** 2).sum(2).argmin(1)
        with_one, wanted = np.c_[known, np.ones(len(known))], np.eye(len(POLICIES))[labels[learn]]
        ridge = with_one.T @ with_one + 10.0 * np.eye(with_one.shape[1])
        line = np.linalg.solve(ridge, with_one.T @ wanted)
        straight = (np.c_[asked, np.ones(len(asked))] @ line).argmax(1)
        for kind, guess in (('centroid', near), ('linear', straight)):
            right[kind] += int((guess == labels[ask]).sum())
    return {kind: number / len(labels) for kind, number in right.items()}


@pytest.fixture
def log():
    """Return what the control loop logs."""
    kept, before = Log(), control_loop.log.level
    control_loop.log.addHandler(kept)
    control_loop.log.setLevel(logging.INFO)
    yield kept
    control_loop.log.removeHandler(kept)
    control_loop.log.setLevel(before)


@pytest.fixture
def loop(monkeypatch):
    """Return an event loop whose time passes when somebody sleeps."""
    monkeypatch.setattr(chunks, 'CallThread', AtOnce)
    made = JumpingLoop()
    yield made
    made.close()


def test_a_classifier_names_no_blind_policy(loop, log):
    order, rows = rollouts(EACH, True, loop, log)
    for part, seen in rows.items():
        for kind, share in accuracy(seen, order).items():
            right = round(share * len(order))
            bound = beta.ppf(0.95, right + 1, len(order) - right)
            assert bound < CHANCE + MARGIN, f'{part}, {kind}: {share:.3f} right, {bound:.3f}'


def test_a_classifier_names_every_policy_that_the_loop_waits_for(loop, log):
    order, rows = rollouts(EACH_RAW, False, loop, log)
    for part, seen in rows.items():
        for share in accuracy(seen, order).values():
            assert share > 0.95, f'{part}: only {share:.3f} right: the classifier sees nothing'


def rollouts(each, blind, loop, log):
    """Return the numbers of the policies of rollouts, and what can be read of them."""
    order = [name for _ in range(each) for name in POLICIES]
    Random(5).shuffle(order)
    rows = [rolled(name, seed, blind, loop, log) for seed, name in enumerate(order)]
    labels = np.array([list(POLICIES).index(name) for name in order])
    return labels, {part: np.array(seen) for part, seen in zip(
        ('station', 'network'), zip(*rows, strict=True), strict=True)}
