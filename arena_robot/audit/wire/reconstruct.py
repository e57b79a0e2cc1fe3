"""
Progress from hops: relative changes as Robo-Dopamine and VLAC define them, (T,) in [-1, 1].

A hop h up covers a share of what is left, a hop down loses a share of what was reached. Eqs. 4 to
11 of the Robo-Dopamine paper; P_0 = 0 and every value is clipped to [0, 1].
"""

from collections.abc import Callable

import numpy as np

from arena_robot.core.observation import Floats

MODES = ('incremental', 'forward', 'backward', 'fused', 'conservative')
ALPHA, EPSILON = 5.0, 1e-6


def step(before: float, hop: float) -> float:
    """Return the progress after a hop."""
    return min(max(before + ((1.0 - before) * hop if hop >= 0.0 else before * hop), 0.0), 1.0)


def incremental(hops: Floats) -> Floats:
    """Return (T+1,) from hops between neighbours."""
    return _walk(len(hops), lambda t, before: step(before, float(hops[t])))


def forward(hops: Floats) -> Floats:
    """Return (T+1,) from hops from the first frame."""
    return np.concatenate([[0.0], np.clip(hops, 0.0, 1.0)])


def backward(hops: Floats) -> Floats:
    """Return (T+1,) from hops from the goal picture, which are 0 or below."""
    return np.concatenate([[0.0], np.clip(1.0 + hops, 0.0, 1.0)])


def fused(between: Floats, first: Floats, goal: Floats) -> Floats:
    """Return (T+1,): the mean of the three, the increment built on the fused value before."""
    ahead, behind = forward(first)[1:], backward(goal)[1:]
    return _walk(len(between), lambda t, before: (
        step(before, float(between[t])) + float(ahead[t]) + float(behind[t])) / 3.0)


def conservative(between: Floats, first: Floats, goal: Floats, alpha: float = ALPHA,
                 epsilon: float = EPSILON) -> Floats:
    """
    Return (T+1,): moves less the more forward and backward disagree.

    P_t = P + w/2 (m - P + d), m the mean of both, d the increment, w = exp(-α (|B - F| / (m +
    ε))²). The paper gives no values of α and ε; ours are recorded with the trace.
    """
    ahead, behind = forward(first)[1:], backward(goal)[1:]

    def move(t: int, before: float) -> float:
        mean = (float(ahead[t]) + float(behind[t])) / 2.0
        apart = abs(float(behind[t]) - float(ahead[t])) / (mean + epsilon)
        weight = float(np.exp(-alpha * apart * apart))
        gain = step(before, float(between[t])) - before
        return min(max(before + weight / 2.0 * (mean - before + gain), 0.0), 1.0)

    return _walk(len(between), move)


def vlac(changes: Floats) -> Floats:
    """Return (T+1,) of VLAC: a change of either sign is a share of what is left, then clipped."""
    values = [0.0]
    for change in changes:
        values.append(values[-1] + (1.0 - values[-1]) * float(change))
    return np.asarray(np.clip(np.array(values), 0.0, 1.0), np.float64)


def _walk(count: int, move: Callable[[int, float], float]) -> Floats:
    values = [0.0]
    for t in range(count):
        values.append(move(t, values[-1]))
    return np.array(values)
