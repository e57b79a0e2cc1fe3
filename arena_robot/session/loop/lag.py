"""How old and how rare pictures are; a step waits for newer ones where they are too old."""

from collections.abc import Mapping

import numpy as np

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.drivers.base import Camera

NEWEST = 15
SLOW = 0.9


def picture_lag_s(camera: Camera) -> float | None:
    """Return the median age of a camera's newest pictures at their arrival; None before any."""
    pairs = camera.arrivals()[-NEWEST:]
    return float(np.median([came_ns - stamp_ns for stamp_ns, came_ns in pairs])) * 1e-9 \
        if pairs else None


def lag_problem(lag_s: float, most_s: float) -> str:
    """Return, as a sentence, that pictures come too late for a step; empty when they do not."""
    if lag_s <= most_s:
        return ''
    return (f'its pictures are {lag_s * 1e3:.0f} ms old when they come, a step accepts '
            f'{most_s * 1e3:.0f} ms (max_image_age): look for a full network or USB bus, a busy '
            'machine, or clocks that differ')


def slow_stream(camera: Camera, wanted_hz: float = CONTROL_RATE_HZ) -> str:
    """Return, as a sentence, that a camera's newest pictures come too rarely; or ''."""
    stamps = [stamp_ns for stamp_ns, _ in camera.arrivals()[-NEWEST:]]
    if len(stamps) < NEWEST or stamps[-1] <= stamps[0]:
        return ''
    rate_hz = (len(stamps) - 1) / ((stamps[-1] - stamps[0]) * 1e-9)
    if rate_hz >= SLOW * wanted_hz:
        return ''
    return (f'its pictures come at {rate_hz:.1f} Hz, the control loop runs at {wanted_hz:g}: '
            'some steps use the picture of the step before. Look for a busy machine or network; '
            'take JPEGs (image_transport: compressed) or smaller pictures')


def waiting_loop(cameras: Mapping[str, Camera], most_s: float) -> str:
    """Return, as a sentence, which cameras a running control loop waits for; or ''."""
    late = {role: lag_s for role, camera in cameras.items()
            if (lag_s := picture_lag_s(camera)) is not None and lag_s > most_s}
    if not late:
        return ''
    words = ', '.join(f'{role} camera {round(lag_s, 2) * 1e3:.0f} ms'
                      for role, lag_s in late.items())
    return (f'Pictures come too late ({words}; a step accepts {most_s * 1e3:.0f} ms): the loop '
            'waits for them.')
