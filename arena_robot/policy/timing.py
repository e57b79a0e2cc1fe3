"""
Policies that measure how long another one takes, or let it take longer.

Queries before those that count warm a policy up, and measure it.
"""

import collections
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from arena_robot.core.action import Chunk
from arena_robot.core.errors import ArenaError, PolicyEnded, PolicyUnavailable
from arena_robot.core.observation import GripperState, Image, Observation
from arena_robot.policy.address import host_answers
from arena_robot.policy.base import Closable, Policy, PolicySpec, resting_arm, resting_depths
from arena_robot.robots.grippers import ROBOTIQ_2F85

NATIVE_SIZE = (288, 512)
# So many answers are measured; the slowest of them counts.
MEASURED = 5
KEPT_CALLS = 10_000     # about eleven minutes at 15 Hz


@dataclass(frozen=True)
class Latency:
    """Seconds over ``count`` calls; ``jitter_s`` is the standard deviation."""

    count: int
    p50_s: float
    p99_s: float
    max_s: float
    jitter_s: float


def summarise(seconds: Iterable[float]) -> Latency:
    """Return the distribution of call times; all zero when there are none."""
    values = np.array(list(seconds))
    if not values.size:
        return Latency(0, 0.0, 0.0, 0.0, 0.0)
    p50, p99 = np.percentile(values, [50, 99])
    return Latency(len(values), float(p50), float(p99), float(values.max()),
                   float(values.std()))


class TimedPolicy:
    """Passes calls on and keeps how long the last 10 000 of them took, failures included."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._seconds: collections.deque[float] = collections.deque(maxlen=KEPT_CALLS)
        self._lock = threading.Lock()

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's."""
        return self._policy.spec

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query, and keep the time it took."""
        started = time.perf_counter()
        try:
            return self._policy.infer(observation, episode)
        finally:
            with self._lock:
                self._seconds.append(time.perf_counter() - started)

    def reset(self, episode: str = '') -> None:
        """Pass on."""
        self._policy.reset(episode)

    def latency(self) -> Latency:
        """Return the distribution so far."""
        with self._lock:
            return summarise(tuple(self._seconds))


class AtLeast:
    """
    A policy whose answers come no earlier than ``least_s`` after the query.

    One that cannot be reached although the host of its ``address`` answers raises PolicyEnded.
    """

    def __init__(self, policy: Policy, least_s: float, address: str = '') -> None:
        self._policy = policy
        self._least_s = least_s
        self._address = address

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's."""
        return self._policy.spec

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query, and wait for what is left of the time."""
        began_s = time.monotonic()
        try:
            chunk = self._policy.infer(observation, episode)
        except PolicyUnavailable as error:
            if host_answers(self._address):
                raise PolicyEnded(str(error)) from error
            raise
        time.sleep(max(0.0, self._least_s - (time.monotonic() - began_s)))
        return chunk

    def reset(self, episode: str = '') -> None:
        """Pass on."""
        self._policy.reset(episode)

    def close(self) -> None:
        """Close the inner policy, if it holds something."""
        if isinstance(self._policy, Closable):
            self._policy.close()


def made_up_observation(spec: PolicySpec, seed: int = 0) -> Observation:
    """Return an observation of a resting arm, with the images that ``spec`` wants."""
    random, stamp_ns = np.random.default_rng(seed), time.time_ns()
    height, width = spec.image_size or NATIVE_SIZE
    images = {name: Image(random.integers(0, 256, (height, width, 3), np.uint8), stamp_ns)
              for name in spec.views()}
    gripper = GripperState(stamp_ns, 0.0, ROBOTIQ_2F85.stroke_m, 0.0)
    return Observation(stamp_ns, resting_arm(spec, stamp_ns), gripper, 'stay where you are', 0,
                       images, depths=resting_depths(spec, height, width, stamp_ns))


def warm_episode() -> str:
    """Return the token of an episode that is nobody's."""
    return f'warm-up-{secrets.token_hex(8)}'


def warmed(policy: Policy, measured: int = 0) -> float:
    """
    Make as many queries as the policy's ``warm_up`` says, then ``measured`` more.

    Return how long the slowest of these took. A policy that fails here fails again in its
    rollout, where it counts: the error is not raised, and 0 is returned.
    """
    spec, episode, slowest_s = policy.spec, warm_episode(), 0.0
    try:
        for number in range(spec.warm_up + measured):
            began_s = time.monotonic()
            policy.infer(made_up_observation(spec, number), episode)
            if number >= spec.warm_up:
                slowest_s = max(slowest_s, time.monotonic() - began_s)
        if spec.warm_up + measured:
            policy.reset(episode)
    except ArenaError:
        return 0.0
    return slowest_s
