"""Observations as a station makes them, and policies that keep what they were asked."""

import numpy as np
import pytest

from arena_robot.core.action import Chunk
from arena_robot.core.observation import ArmState, GripperState, Image, Observation
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.options import CallOptions

HASTY = CallOptions(connect_timeout_s=1.0, infer_timeout_s=0.3, reset_timeout_s=0.3)
both = pytest.mark.parametrize('protocol', ['grpc', 'openpi'])
KINDS = [('grpc', CallOptions()), ('grpc', CallOptions(stream=True)), ('openpi', CallOptions())]
all_three = pytest.mark.parametrize(('protocol', 'options'), KINDS,
                                    ids=['grpc', 'grpc-stream', 'openpi'])


def photograph(height=720, width=1280, seed=0, exponent=1.2):
    """Return noise with the 1/f spectrum of photographs, plus hard edges."""
    random = np.random.default_rng(seed)
    across, along = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    frequency = np.hypot(across, along)
    frequency[0, 0] = 1.0
    channels = []
    for _ in range(3):
        spectrum = np.fft.rfft2(random.normal(size=(height, width))) / frequency ** exponent
        spectrum[0, 0] = 0.0
        plane = np.fft.irfft2(spectrum, s=(height, width))
        channels.append(plane / plane.std() * 50.0 + 128.0)
    pixels = np.stack(channels, -1)
    for _ in range(40):
        top, left = random.integers(height), random.integers(width)
        tall, wide = random.integers(10, height // 3), random.integers(10, width // 3)
        pixels[top:top + tall, left:left + wide] += random.normal(0.0, 40.0, 3)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def observation(images=None, q=0.1, prompt='put the cup away', step=7, gripper=0.25):
    """Return an observation; ``images`` maps views to pixels."""
    unknown = np.full(7, np.nan)
    arm = ArmState(101, np.full(7, q), unknown, unknown, unknown, np.arange(6) * 0.1, unknown)
    return Observation(
        103, arm, GripperState(102, gripper, 0.06, gripper), prompt, step,
        {name: Image(pixels, 100) for name, pixels in (images or {}).items()})


def pictures(spec, height=224, width=224, seed=0):
    """Return random pixels for every view that ``spec`` wants."""
    random = np.random.default_rng(seed)
    return {name: random.integers(0, 256, (height, width, 3), np.uint8) for name in spec.views()}


def fitting(spec, **kwargs):
    """Return an observation with the pictures that ``spec`` wants, in their size."""
    size = spec.image_size or (48, 64)
    return observation(pictures(spec, *size), **kwargs)


class Noted:
    """Counts up in its actions, and keeps every call."""

    def __init__(self, spec=None, length=4):
        self.spec = spec or PolicySpec(image_size=(24, 32), chunk_length=length)
        self.length = length
        self.asked = []
        self.resets = []

    def infer(self, observation, episode=''):
        self.asked.append((observation, episode))
        first = 100.0 * len(self.asked)
        actions = np.tile(first + np.arange(self.length, dtype=np.float32)[:, None],
                          (1, self.spec.action_space.size(len(observation.arm.q))))
        return Chunk(actions, self.spec.action_space)

    def reset(self, episode=''):
        self.resets.append(episode)
