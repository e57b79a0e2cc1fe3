"""Tools of the checks: connections to the policy under test, observations, what it is like."""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

import numpy as np

from arena_robot.core.action import Chunk
from arena_robot.core.conformance import CheckFailed, CheckSkipped
from arena_robot.core.errors import ConfigError, PolicyError
from arena_robot.core.observation import GripperState, Image, Observation
from arena_robot.policy.address import parse_address
from arena_robot.policy.base import PolicySpec, resting_arm, resting_depths
from arena_robot.policy.connect import connect
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.openpi.client import OpenpiPolicy
from arena_robot.policy.options import CallOptions
from arena_robot.policy.timing import NATIVE_SIZE
from arena_robot.robots.grippers import ROBOTIQ_2F85

logger = logging.getLogger(__name__)

PROMPT = 'put the red block into the bowl'
NORMAL_QUERY = 'a normal query'

Remote = GrpcPolicy | OpenpiPolicy


class Nature(Enum):
    """What a policy answers to the same query in two new episodes with the same seed."""

    REPEATS = 'the same answer'
    SEEDED = 'samples, the same answer for the same episode_seed'
    DRAWS = 'samples, another answer each time'
    UNDECLARED = 'another answer each time, which its spec does not say'


@dataclass(frozen=True)
class ProbeLimits:
    """
    Limits of the suite.

    ``latency_s`` bounds p99; 0 means one second or as long as a chunk lasts, whichever is more.
    ``stochastic``: the policy samples, also where its spec does not say so. An answer
    ``spike_s`` later than the median is a spike. ``resident_bytes`` measures the memory of the
    policy's process. After ``budget_s`` no further check begins, and what is left fails.
    """

    latency_s: float = 0.0
    calls: int = 100
    clients: int = 4
    stochastic: bool = False
    tolerance: float = 1e-4
    spike_s: float = 0.25
    budget_s: float = float('inf')
    resident_bytes: Callable[[], int] | None = None
    options: CallOptions = field(default_factory=CallOptions)


class Probe:
    """Opens connections to one address and makes observations that fit its spec."""

    def __init__(self, address: str, limits: ProbeLimits) -> None:
        self.address = address
        self.limits = limits
        self.first_s: float | None = None    # of the first query of all
        self.query_s: list[float] = []       # of one caller, one after the other
        self.is_constant: bool | None = None    # whether every answer is the same
        self._spec: PolicySpec | None = None
        self._nature: Nature | None = None

    @property
    def is_openpi(self) -> bool:
        """Whether the policy is behind openpi's protocol, which promises less."""
        return parse_address(self.address).is_openpi

    @property
    def nature(self) -> Nature:
        """
        Whether the policy samples: what its spec says, and what it answers when asked twice.

        An openpi server cannot say it. Raises CheckFailed when it does not answer.
        """
        if self._nature is None:
            self._nature = self._asked_twice()
        return self._nature

    def need_repeats(self) -> None:
        """Raise CheckSkipped unless the same query gets the same answer, with the same seed."""
        if self.nature is Nature.DRAWS:
            raise CheckSkipped('the policy samples: two answers cannot be compared')
        if self.nature is Nature.UNDECLARED:
            raise CheckSkipped("the same query gets different answers, see 'repeats after reset'")

    def _asked_twice(self) -> Nature:
        first, again, differing = (self.rollout(name, 1, episode_seed=1)[0]
                                   for name in ('twice', 'twice', 'another'))
        says = self.limits.stochastic or self.spec.samples or dict(
            parse_address(self.address).options).get('episode_seed') == 'yes'
        limit = self.limits.tolerance
        # One that remembers an episode though it was reset does not answer a new one differently.
        if not same(first, again, limit) and not same(first, differing, limit):
            return Nature.DRAWS if says or self.is_openpi else Nature.UNDECLARED
        if says and not same(again, self.rollout('twice', 1, episode_seed=2)[0], limit):
            return Nature.SEEDED
        return Nature.REPEATS

    @property
    def spec(self) -> PolicySpec:
        """The policy's spec, requested once."""
        if self._spec is None:
            with self.connect() as policy:
                self._spec = policy.spec
        return self._spec

    def connect(self) -> Remote:
        """Return a new open connection; raises PolicyError, ConfigError for other protocols."""
        if parse_address(self.address).is_translated:
            raise ConfigError("the check speaks gRPC and openpi alone; run arena policy serve "
                              f"'{self.address}', and check the address that it prints")
        return cast(Remote, connect(self.address, self.limits.options))

    def observation(self, seed: int = 0, size: tuple[int, int] | None = None, black: bool = False,
                    prompt: str = PROMPT, episode_seed: int = 0) -> Observation:
        """Return an observation of a resting arm, its images drawn from ``seed``."""
        spec, random = self.spec, np.random.default_rng(seed)
        height, width = size or spec.image_size or NATIVE_SIZE
        stamp_ns = time.time_ns()
        images = {}
        for name in spec.views():
            pixels = random.integers(0, 256, (height, width, 3), np.uint8)
            images[name] = Image(np.zeros_like(pixels) if black else pixels, stamp_ns)
        arm = resting_arm(spec, stamp_ns, random)
        gripper = GripperState(stamp_ns, 0.0, ROBOTIQ_2F85.stroke_m, 0.0)
        return Observation(stamp_ns, arm, gripper, prompt, 0, images, episode_seed,
                           depths=resting_depths(spec, height, width, stamp_ns))

    def without(self, observation: Observation, name: str) -> Observation:
        """Return ``observation`` with one image taken away."""
        images = {view: image for view, image in observation.images.items() if view != name}
        return dataclasses.replace(observation, images=images)

    def rollout(self, episode: str, queries: int = 3, first: int = 0,
                episode_seed: int = 0) -> list[np.ndarray]:
        """Return the actions of a short episode on a new connection, then reset it."""
        seen = [self.observation(seed, episode_seed=episode_seed)
                for seed in range(first, first + queries)]
        return [chunk.actions for chunk in self.answers(seen, episode)]

    def answers(self, seen: Sequence[Observation], episode: str) -> list[Chunk]:
        """Return the answers to the queries of an episode on a new connection, then reset it."""
        with self.connect() as policy:
            try:
                return [ask(policy, observation, episode) for observation in seen]
            finally:
                forget(policy, episode)

    def still_works(self, after: str) -> None:
        """Raise CheckFailed unless a normal query on a new connection is answered."""
        try:
            with self.connect() as policy:
                policy.infer(self.observation(), 'after')
                policy.reset('after')
        except PolicyError as error:
            raise CheckFailed(f'{after}, then a normal query', told(error),
                              'one bad request must not break the next good one: leave no state '
                              'behind when a call fails, and keep the process alive') from error


def same(first: np.ndarray, second: np.ndarray, tolerance: float) -> bool:
    """Return whether two chunks are equal within ``tolerance``."""
    return first.shape == second.shape and bool(np.allclose(first, second, 0.0, tolerance))


def gap(first: np.ndarray, second: np.ndarray) -> str:
    """Return how two chunks differ, for a report."""
    if first.shape != second.shape:
        return f'{len(first)} and {len(second)} actions'
    return f'actions that differ by up to {np.abs(first - second).max():.3g}'


def ask(policy: Remote, observation: Observation, episode: str) -> Chunk:
    """Return the answer to a normal query; an error is a failed check."""
    try:
        return policy.infer(observation, episode)
    except PolicyError as error:
        raise CheckFailed(f"{NORMAL_QUERY} in episode '{episode}'", told(error),
                          advice(error)) from error


def forget(policy: Remote, episode: str) -> None:
    """Reset an episode; an error is a failed check."""
    try:
        policy.reset(episode)
    except PolicyError as error:
        raise CheckFailed(f"a reset of episode '{episode}'", told(error),
                          'reset must succeed at any time, also for an episode that never began '
                          'or has been reset before') from error


def attempt(call: Callable[[], object]) -> PolicyError | None:
    """Return the error of a call that may be refused, None when it was answered."""
    try:
        call()
    except PolicyError as error:
        return error
    return None


def told(error: PolicyError) -> str:
    """Return an error with its code, as shown in the report."""
    return f'{error} [{error.code}]'


ADVICE = {
    'policy_unavailable': 'keep the server process alive and listening; look into its log for a '
                          'crash',
    'policy_timeout': 'answer faster, load and compile the model before serving, or raise '
                      '--timeout',
    'policy_refused': 'a request that fits the spec must be answered: make spec and policy agree',
    'policy_bad_reply': "return Chunk(actions, self.spec.action_space) with actions of (N, 8) or "
                        "(N, 7) finite numbers; a server of openpi: {'actions': actions}",
    'policy': 'the policy raised an exception; its server has the traceback in the log',
}


def advice(error: PolicyError) -> str:
    """Return what to change about an error on a normal query."""
    return ADVICE[error.code]
