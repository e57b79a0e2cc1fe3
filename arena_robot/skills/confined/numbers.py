"""Numbers that generated code computes with: finite scalars and small arrays."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import CodeRefused

MOST_ELEMENTS = 64    # poses, boxes and small matrices
MOST_NESTED = 2
MOST_EXPONENT = 8.0    # squares and cubes; large powers only overflow
LARGEST = 1e12
Number = bool | int | float | NDArray[Any]


def number(value: object) -> Number:
    """Return a finite scalar, or an array of at most 64 finite elements; else CodeRefused."""
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise CodeRefused(f'a number is not finite, or larger than {LARGEST:g}')
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in 'fib':
        if not 0 < value.size <= MOST_ELEMENTS:
            raise CodeRefused(f'an array has {value.size} elements, allowed are 1 to '
                              f'{MOST_ELEMENTS}')
        if not np.all(np.isfinite(value)):
            raise CodeRefused('an element of an array is not finite')
        return number(value.item()) if value.ndim == 0 else value
    raise CodeRefused(f'expected a number, found {type(value).__name__}')


def truth(value: object) -> bool:
    """Return a condition; CodeRefused when it is not one scalar."""
    condition = number(value)
    if isinstance(condition, np.ndarray):
        raise CodeRefused('a condition must be one value, found an array')
    return bool(condition)


def operand(value: object, depth: int = 0) -> Number:
    """Return a number, or the array that a tuple of numbers makes."""
    if isinstance(value, tuple):
        if depth > MOST_NESTED:
            raise CodeRefused('lists are nested too deeply')
        try:
            return number(np.array([operand(item, depth + 1) for item in value], dtype=float))
        except ValueError as error:
            raise CodeRefused('a list must have numbers, or lists of one length') from error
    return number(value)


def power(base: Number, exponent: Number) -> Number:
    """Return a power with a small exponent."""
    if isinstance(exponent, np.ndarray) or abs(exponent) > MOST_EXPONENT:
        raise CodeRefused(f'an exponent must be a scalar of at most {MOST_EXPONENT:g}')
    result: Number = np.asarray(base, dtype=float) ** float(exponent)
    return result


def in_bbox(position: object, low: object, high: object) -> bool:
    """Return whether a point (3,) lies within two corners."""
    point, lower, upper = (np.asarray(operand(corner)) for corner in (position, low, high))
    if not point.shape == lower.shape == upper.shape == (3,):
        raise CodeRefused('in_bbox takes a position and two corners of three numbers')
    return bool(np.all(point >= lower) and np.all(point <= upper))


def _length(value: object) -> int:
    if isinstance(value, tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return len(value)
    raise CodeRefused('len needs a list or an array')


def _extreme(pick: Callable[..., Any]) -> Callable[..., Any]:
    def extreme(*values: Number) -> Any:
        if len(values) == 1 and isinstance(values[0], np.ndarray):
            return pick(values[0].ravel().tolist())
        if any(isinstance(value, np.ndarray) for value in values):
            raise CodeRefused('min and max compare scalars; np.minimum compares arrays')
        return pick(values)
    return extreme


def _array(value: Number) -> Any:
    return np.atleast_1d(np.asarray(value, dtype=float))


# Each with the number of its arguments. All take numbers, but for len.
PLAIN: dict[str, tuple[Callable[..., Any], tuple[int, int]]] = {
    'abs': (abs, (1, 1)), 'min': (_extreme(min), (1, 8)), 'max': (_extreme(max), (1, 8)),
    'float': (float, (1, 1)), 'int': (int, (1, 1)), 'bool': (bool, (1, 1)),
    'round': (round, (1, 1)), 'sum': (np.sum, (1, 1)), 'len': (_length, (1, 1)),
}
ONE, TWO = (1, 1), (2, 2)
NUMPY: dict[str, tuple[Callable[..., Any], tuple[int, int]]] = {
    'np.linalg.norm': (np.linalg.norm, ONE), 'np.array': (_array, ONE),
    **{f'np.{function.__name__}': (function, ONE) for function in (
        np.sqrt, np.exp, np.log, np.square, np.sin, np.cos, np.tan, np.tanh, np.arccos,
        np.arcsin, np.arctan, np.sign, np.sum, np.mean, np.all, np.any, np.deg2rad, np.rad2deg,
        np.radians, np.degrees, np.logical_not, np.floor, np.ceil)},
    'np.abs': (np.abs, ONE), 'np.absolute': (np.abs, ONE), 'np.min': (np.min, ONE),
    'np.max': (np.max, ONE),
    **{f'np.{function.__name__}': (function, TWO) for function in (
        np.dot, np.arctan2, np.minimum, np.maximum, np.logical_and, np.logical_or,
        np.isclose, np.allclose)},
    'np.power': (power, TWO), 'np.clip': (np.clip, (3, 3)),
}
CONSTANTS = {'np.pi': math.pi}
