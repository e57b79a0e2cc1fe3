"""Queries before those that count: to warm a policy up, and to measure how long it takes."""

import secrets
import time

import numpy as np

from arena_robot.core.errors import ArenaError
from arena_robot.core.observation import ArmState, GripperState, Image, Observation
from arena_robot.policy.base import Policy, PolicySpec
from arena_robot.robots.arms import RESET_JOINTS
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.kinematics import flange_pose

NATIVE_SIZE = (288, 512)
# So many answers are measured; the slowest of them counts.
MEASURED = 5


def made_up_observation(spec: PolicySpec, seed: int = 0) -> Observation:
    """Return an observation in DROID's reset pose with the images that ``spec`` wants."""
    random, stamp_ns = np.random.default_rng(seed), time.time_ns()
    height, width = spec.image_size or NATIVE_SIZE
    images = {name: Image(random.integers(0, 256, (height, width, 3), np.uint8), stamp_ns)
              for name in spec.views()}
    q, unknown = np.array(RESET_JOINTS), np.full(7, np.nan)
    arm = ArmState(stamp_ns, q, unknown, unknown, unknown, flange_pose(q), unknown)
    return Observation(stamp_ns, arm, GripperState(stamp_ns, 0.0, ROBOTIQ_2F85.stroke_m, 0.0),
                       'stay where you are', 0, images)


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
