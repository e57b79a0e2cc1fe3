"""Tools of the checks: connections to the policy under test, and observations for it."""

import dataclasses
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from arena_robot.core.action import Chunk
from arena_robot.core.conformance import CheckFailed
from arena_robot.core.errors import PolicyError
from arena_robot.core.observation import ArmState, GripperState, Image, Observation
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import connect
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.openpi.client import OpenpiPolicy
from arena_robot.policy.options import CallOptions
from arena_robot.safety.kinematics import flange_pose
from arena_robot.safety.robots import RESET_JOINTS

logger = logging.getLogger(__name__)

NATIVE_SIZE = (288, 512)
PROMPT = 'put the red block into the bowl'

Remote = GrpcPolicy | OpenpiPolicy


@dataclass(frozen=True)
class ProbeLimits:
    """
    Limits of the suite.

    ``latency_s`` bounds p99; 0 means one second or as long as a chunk lasts, whichever is more.
    ``stochastic``: the policy samples, so the same answer twice is not required.
    """

    latency_s: float = 0.0
    calls: int = 100
    clients: int = 4
    stochastic: bool = False
    tolerance: float = 1e-4
    options: CallOptions = field(default_factory=CallOptions)


class Probe:
    """Opens connections to one address and makes observations that fit its spec."""

    def __init__(self, address: str, limits: ProbeLimits) -> None:
        self.address = address
        self.limits = limits
        self._spec: PolicySpec | None = None

    @property
    def spec(self) -> PolicySpec:
        """The policy's spec, requested once."""
        if self._spec is None:
            with self.connect() as policy:
                self._spec = policy.spec
        return self._spec

    def connect(self) -> Remote:
        """Return a new open connection; raises PolicyError."""
        return connect(self.address, self.limits.options)

    def observation(self, seed: int = 0, size: tuple[int, int] | None = None, black: bool = False,
                    prompt: str = PROMPT) -> Observation:
        """Return an observation in DROID's reset pose, its images drawn from ``seed``."""
        spec, random = self.spec, np.random.default_rng(seed)
        height, width = size or spec.image_size or NATIVE_SIZE
        stamp_ns = time.time_ns()
        images = {}
        for name in spec.views():
            pixels = random.integers(0, 256, (height, width, 3), np.uint8)
            images[name] = Image(np.zeros_like(pixels) if black else pixels, stamp_ns)
        q = np.array(RESET_JOINTS) + random.normal(0.0, 0.02, 7)
        unknown = np.full(7, np.nan)
        arm = ArmState(stamp_ns, q, unknown, unknown, unknown, flange_pose(q), unknown)
        return Observation(stamp_ns, arm, GripperState(stamp_ns, 0.0, 0.085, 0.0), prompt, 0,
                           images)

    def without(self, observation: Observation, name: str) -> Observation:
        """Return ``observation`` with one image taken away."""
        images = {view: image for view, image in observation.images.items() if view != name}
        return dataclasses.replace(observation, images=images)

    def rollout(self, episode: str, queries: int = 3, first: int = 0) -> list[np.ndarray]:
        """Return the actions of a short episode on a new connection, then reset it."""
        with self.connect() as policy:
            try:
                return [ask(policy, self.observation(seed), episode).actions
                        for seed in range(first, first + queries)]
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


def ask(policy: Remote, observation: Observation, episode: str) -> Chunk:
    """Return the answer to a normal query; an error is a failed check."""
    try:
        return policy.infer(observation, episode)
    except PolicyError as error:
        raise CheckFailed(f"a normal query in episode '{episode}'", told(error),
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
    'policy_bad_reply': 'return an (N, 8) or (N, 7) array of finite float32 that fits the spec',
    'policy': 'the policy raised an exception; its server has the traceback in the log',
}


def advice(error: PolicyError) -> str:
    """Return what to change about an error on a normal query."""
    return ADVICE[error.code]
