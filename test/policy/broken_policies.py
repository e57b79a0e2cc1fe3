"""Policies that are wrong on purpose, each in one way authors are."""

import time

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.policy.base import PolicySpec

SMALL = {'image_size': (24, 32)}


class Sound:
    """Right in every way; remembers how often each episode has asked."""

    def __init__(self, **spec):
        self.spec = PolicySpec(**{**SMALL, 'session_id': True, **spec})
        self.steps = {}

    def count(self, episode):
        self.steps[episode] = self.steps.get(episode, 0) + 1
        return self.steps[episode]

    def values(self, observation, episode):
        q = observation.arm.q + 0.001 * self.count(episode)
        return np.append(q, 0.0)

    def infer(self, observation, episode=''):
        return self.chunk(np.tile(self.values(observation, episode), (4, 1)))

    def chunk(self, actions):
        return Chunk(np.asarray(actions, np.float32), self.spec.action_space)

    def reset(self, episode=''):
        self.steps.pop(episode, None)


class NotANumber(Sound):
    def values(self, observation, episode):
        return np.append(np.full(7, np.nan), 0.0)


class SevenNumbers(Sound):
    def values(self, observation, episode):
        return observation.arm.q


class OneAction(Sound):
    def infer(self, observation, episode=''):
        return self.chunk(self.values(observation, episode))


class NoActions(Sound):
    def infer(self, observation, episode=''):
        return self.chunk(np.zeros((0, 8)))


class Dictionary(Sound):
    def infer(self, observation, episode=''):
        return {'actions': np.zeros((4, 8))}


class OtherSpace(Sound):
    def infer(self, observation, episode=''):
        return Chunk(np.zeros((4, 8), np.float32), ActionSpace.JOINT_VELOCITY)


class OtherLength(Sound):
    def __init__(self):
        super().__init__(chunk_length=10)


class Degrees(Sound):
    def values(self, observation, episode):
        return np.append(np.degrees(observation.arm.q), 0.0)


class FastVelocities(Sound):
    def __init__(self):
        super().__init__(action_space=ActionSpace.JOINT_VELOCITY)

    def values(self, observation, episode):
        return np.append(np.full(7, 2.175), 0.0)


class Millimetres(Sound):
    def __init__(self):
        super().__init__(action_space=ActionSpace.CARTESIAN_POSITION)

    def values(self, observation, episode):
        return np.array([386.0, 0.0, 386.0, 3.14, 0.0, 0.0, 0.0])


class SignedGripper(Sound):
    def values(self, observation, episode):
        return np.append(observation.arm.q, -1.0)


class WordsNeeded(Sound):
    def values(self, observation, episode):
        if not observation.prompt.split()[0]:
            raise ValueError('no words')
        return super().values(observation, episode)


class Brightness(Sound):
    def values(self, observation, episode):
        if observation.images['left_left'].pixels.std() == 0.0:
            raise ZeroDivisionError('the image is flat')
        return super().values(observation, episode)


class StrictReset(Sound):
    def reset(self, episode=''):
        del self.steps[episode]


class Dice(Sound):
    random = np.random.default_rng()

    def values(self, observation, episode):
        return np.append(observation.arm.q + self.random.normal(0.0, 0.01, 7), 0.0)


class NeverForgets(Sound):
    def reset(self, episode=''):
        pass


class OneMemory(Sound):
    def count(self, episode):
        return super().count('')

    def reset(self, episode=''):
        self.steps.clear()


class ForgetsAll(Sound):
    def reset(self, episode=''):
        self.steps.clear()


class Slow(Sound):
    def infer(self, observation, episode=''):
        time.sleep(0.02)
        return super().infer(observation, episode)


class Hangs(Sound):
    """Waits for a camera that is too small to be one."""

    def __init__(self):
        super().__init__(image_size=None)

    def infer(self, observation, episode=''):
        if observation.images['left_left'].pixels.shape[0] < 2:
            time.sleep(2.3)
        return super().infer(observation, episode)


class Poisoned(Sound):
    """Never recovers from an image of a size it cannot handle."""

    def __init__(self):
        super().__init__(image_size=None)
        self.poisoned = False

    def infer(self, observation, episode=''):
        if observation.images['left_left'].pixels.shape[0] < 100:
            self.poisoned = True
        if self.poisoned:
            raise RuntimeError('CUDA error: device-side assert triggered')
        return super().infer(observation, episode)


class SharedScratch(Sound):
    """Keeps what one call computes where the next call overwrites it."""

    def infer(self, observation, episode=''):
        self.scratch = observation.arm.q.copy()
        time.sleep(0.01)
        return self.chunk(np.tile(np.append(self.scratch, 0.0), (4, 1)))


class LateFailure(Sound):
    """Runs out of memory after fifty queries."""

    def __init__(self):
        super().__init__()
        self.queries = 0

    def infer(self, observation, episode=''):
        self.queries += 1
        if self.queries > 50:
            raise MemoryError('out of memory')
        return super().infer(observation, episode)


class Exemplary(Sound):
    """Right in every way and nothing is suspicious: state, prompt and pictures are used."""

    def values(self, observation, episode):
        light = sum(image.pixels.mean() for image in observation.images.values())
        word = sum(map(ord, observation.prompt))
        return np.append(observation.arm.q + 1e-4 * (light + word % 97), 0.0)
