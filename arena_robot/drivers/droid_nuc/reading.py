"""What DROID's server says, checked, and its clock mapped to the station's."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import Floats
from arena_robot.drivers.polled import fixed
from arena_robot.robots.arms import DOF

WAYS = 1000         # readings from which the shortest way is taken
JUMPED_NS = 10**9


class NotDroid(DriverError):
    """The server's answer is not that of DROID's server."""


@dataclass(frozen=True)
class Reading:
    """
    One answer of ``get_robot_state``; ``nuc_ns`` is the robot's stamp on the NUC's clock.

    ``q`` (7,) rad, ``dq`` (7,) rad/s, ``tau`` (7,) N m measured, ``pose`` (6,) of the flange,
    ``gripper`` 0 open to 1 closed.
    """

    nuc_ns: int
    q: Floats
    dq: Floats
    tau: Floats
    pose: Floats
    gripper: float
    command_succeeded: bool


def reading_of(answer: Any) -> Reading:
    """Return the reading in an answer of ``get_robot_state``. Raises NotDroid."""
    try:
        state, stamps = answer
        return Reading(
            int(stamps['robot_timestamp_seconds']) * 10**9 + int(stamps['robot_timestamp_nanos']),
            _numbers(state, 'joint_positions', DOF), _numbers(state, 'joint_velocities', DOF),
            _numbers(state, 'motor_torques_measured', DOF),
            _numbers(state, 'cartesian_position', 6), position_of(state['gripper_position']),
            bool(state['prev_command_successful']))
    except (KeyError, TypeError, ValueError) as error:
        raise NotDroid("get_robot_state does not answer as DROID's server does: "
                       f'{type(error).__name__}: {error}') from error


def joints_of(answer: Any, method: str) -> Floats:
    """Return the seven numbers that a method of the server answers. Raises NotDroid."""
    try:
        return _numbers({method: answer}, method, DOF)
    except (TypeError, ValueError) as error:
        raise NotDroid(f"{method} does not answer as DROID's server does: {error}") from error


def position_of(answer: Any) -> float:
    """Return the answer of ``get_gripper_position``, 0 open to 1 closed. Raises NotDroid."""
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not np.isfinite(answer):
        raise NotDroid(f"the gripper's position is {answer!r:.60}, DROID's server gives a number")
    return min(max(float(answer), 0.0), 1.0)


class NucTime:
    """
    The NUC's clock on the station's.

    A stamp was made before its answer came: the shortest way of the last readings bounds the
    offset, and half of the shortest round trip is taken for that way.
    """

    def __init__(self) -> None:
        self._ways: deque[int] = deque(maxlen=WAYS)
        self._trips: deque[int] = deque(maxlen=WAYS)

    def stamp_ns(self, nuc_ns: int, sent_ns: int, came_ns: int) -> int:
        """Return the station's time of ``nuc_ns``, of a call from ``sent_ns`` to ``came_ns``."""
        way = came_ns - nuc_ns
        if self._ways and abs(way - self._ways[-1]) > JUMPED_NS:     # a clock was set
            self._ways.clear()
        self._ways.append(way)
        self._trips.append(max(came_ns - sent_ns, 0))
        return min(nuc_ns + min(self._ways) - min(self._trips) // 2, came_ns)


def _numbers(state: Mapping[str, Any], name: str, size: int) -> Floats:
    values: Floats = np.array(state[name], dtype=float)
    if values.shape != (size,) or not np.all(np.isfinite(values)):
        raise ValueError(f'{name} must be {size} finite numbers, found {state[name]!r:.80}')
    return fixed(values)
