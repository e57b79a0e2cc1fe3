"""Policies that are allowed and suspicious, each in one way, and policies that sample."""

import time

import numpy as np
from broken_policies import Exemplary

from arena_robot.core.action import ActionSpace


class NoPrompt(Exemplary):
    def values(self, observation, episode):
        light = sum(image.pixels.mean() for image in observation.images.values())
        return np.append(observation.arm.q + 1e-4 * light, 0.0)


class NoPictures(Exemplary):
    def values(self, observation, episode):
        return np.append(observation.arm.q + 1e-6 * sum(map(ord, observation.prompt)), 0.0)


class FirstPrompt(Exemplary):
    """Keeps the first prompt of an episode."""

    def __init__(self):
        super().__init__()
        self.prompts = {}

    def values(self, observation, episode):
        word = self.prompts.setdefault(episode, sum(map(ord, observation.prompt)))
        light = sum(image.pixels.mean() for image in observation.images.values())
        return np.append(observation.arm.q + 1e-4 * light + 1e-6 * word, 0.0)

    def reset(self, episode=''):
        self.prompts.pop(episode, None)


class SlowStart(Exemplary):
    """Compiles at its first query."""

    def __init__(self, naps=(0.7,)):
        super().__init__()
        self.naps = list(naps)

    def infer(self, observation, episode=''):
        if self.naps:
            time.sleep(self.naps.pop(0))
        return super().infer(observation, episode)


class Spikes(SlowStart):
    """Takes long at its twelfth query."""

    def __init__(self):
        super().__init__((0.0,) * 11 + (0.9,))


class Hoards(Exemplary):
    """Keeps something of every query."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def infer(self, observation, episode=''):
        self.kept.append(np.ones(25_000))
        return super().infer(observation, episode)


class FarAway(Exemplary):
    """Answers changes where positions are asked for."""

    def values(self, observation, episode):
        values = super().values(observation, episode)
        return np.append(values[:7] - observation.arm.q, 0.0)


class Changes(Exemplary):
    """Answers changes in radians as velocities."""

    def __init__(self):
        super().__init__(action_space=ActionSpace.JOINT_VELOCITY)

    def values(self, observation, episode):
        values = super().values(observation, episode)
        return np.append(values[:7] - observation.arm.q, 0.0)


class Constant(Exemplary):
    def values(self, observation, episode):
        return np.append(np.array([0.0, -0.6, 0.0, -2.5, 0.0, 1.9, 0.0]), 0.0)


class Samples(Exemplary):
    """Draws its actions from a generator that ``episode_seed`` seeds."""

    def __init__(self, samples=True, seeded=True):
        super().__init__(samples=samples)
        self.seeded = seeded
        self.random = np.random.default_rng(5)

    def values(self, observation, episode):
        random = np.random.default_rng((observation.episode_seed, self.count(episode))) \
            if self.seeded else self.random
        return super().values(observation, episode) + np.append(random.normal(0.0, 0.01, 7), 0.0)


class Drifts(Samples):
    """Draws from a distribution that moves with every query of every episode."""

    def __init__(self):
        super().__init__(seeded=False)
        self.queries = 0

    def values(self, observation, episode):
        self.queries += 1
        return super().values(observation, episode) + np.append(np.full(7, 5e-4 * self.queries),
                                                                0.0)
