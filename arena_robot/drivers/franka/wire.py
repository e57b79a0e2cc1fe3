"""The Franka Control Interface on the wire, versions 10 and 5: messages, datagrams and numbers."""

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from arena_robot.robots.arms import DOF

HEADER = struct.Struct('<III')      # command, command_id, size with this header
CONNECT = struct.Struct('<HH')      # version, UDP port
CONNECTED = struct.Struct('<BH')    # status, version
MOVE = struct.Struct('<II')         # controller, generator; then deviations and the rest
DEVIATIONS = 48                     # bytes: two of three doubles
ROBOT_PORT = 1337
VERSIONS = {'fr3': 10, 'panda': 5}      # by robot_type


class FciCommand(IntEnum):
    """Commands of version 10 by their numbers; those from 90 on exist in version 5 only."""

    CONNECT = 0
    MOVE = 1
    STOP_MOVE = 2
    SET_COLLISION_BEHAVIOR = 3
    SET_JOINT_IMPEDANCE = 4
    SET_CARTESIAN_IMPEDANCE = 5
    SET_GUIDING_MODE = 6
    SET_EE_TO_K = 7
    SET_NE_TO_EE = 8
    SET_LOAD = 9
    AUTOMATIC_ERROR_RECOVERY = 10
    GET_ROBOT_MODEL = 11
    GET_CARTESIAN_LIMIT = 90
    SET_FILTERS = 91
    LOAD_MODEL_LIBRARY = 92


_C = FciCommand
COMMANDS = {
    10: tuple(range(12)),
    9: tuple(range(12)),
    5: (_C.CONNECT, _C.MOVE, _C.STOP_MOVE, _C.GET_CARTESIAN_LIMIT, _C.SET_COLLISION_BEHAVIOR,
        _C.SET_JOINT_IMPEDANCE, _C.SET_CARTESIAN_IMPEDANCE, _C.SET_GUIDING_MODE, _C.SET_EE_TO_K,
        _C.SET_NE_TO_EE, _C.SET_LOAD, _C.SET_FILTERS, _C.AUTOMATIC_ERROR_RECOVERY,
        _C.LOAD_MODEL_LIBRARY),
}
SIZES = {_C.SET_COLLISION_BEHAVIOR: 416, _C.SET_LOAD: 104, _C.SET_JOINT_IMPEDANCE: 56,
         _C.SET_CARTESIAN_IMPEDANCE: 48, _C.SET_EE_TO_K: 128, _C.SET_NE_TO_EE: 128}


class MoveStatus(IntEnum):
    """Replies to a Move, by their numbers in version 10."""

    SUCCESS = 0
    MOTION_STARTED = 1
    PREEMPTED = 2
    PREEMPTED_FOR_SAFETY = 3
    REJECTED_FOR_SAFETY = 4
    NOT_POSSIBLE = 5
    INVALID = 7
    REFLEX_ABORTED = 8
    EMERGENCY_ABORTED = 9
    INPUT_ERROR = 10
    ABORTED = 11


MOVE_STATUS_5 = {MoveStatus.SUCCESS: 0, MoveStatus.MOTION_STARTED: 1, MoveStatus.PREEMPTED: 2,
                 MoveStatus.PREEMPTED_FOR_SAFETY: 7, MoveStatus.REJECTED_FOR_SAFETY: 3,
                 MoveStatus.NOT_POSSIBLE: 3, MoveStatus.INVALID: 5, MoveStatus.REFLEX_ABORTED: 6,
                 MoveStatus.EMERGENCY_ABORTED: 7, MoveStatus.INPUT_ERROR: 8,
                 MoveStatus.ABORTED: 9}
DONE, NOT_POSSIBLE, BAD_VALUE = 0, 1, 2     # replies to all other commands
RECOVERY_UNSAFE = 2                         # reply to a recovery while a safety function is active


class FciController(IntEnum):
    """Controllers, as Move asks for them and as states show them."""

    JOINT_IMPEDANCE = 0
    CARTESIAN_IMPEDANCE = 1
    EXTERNAL = 2
    OTHER = 3


class FciGenerator(IntEnum):
    """Motion generators as states show them; Move asks with numbers that are one less."""

    IDLE = 0
    JOINT_POSITION = 1
    JOINT_VELOCITY = 2
    CARTESIAN_POSITION = 3
    CARTESIAN_VELOCITY = 4
    NONE = 5


class FciError(IntEnum):
    """Error flags that are used here, by their index."""

    joint_position_limits_violation = 0
    joint_velocity_violation = 3
    joint_reflex = 6
    cartesian_reflex = 7
    joint_position_motion_generator_start_pose_invalid = 11
    joint_motion_generator_position_limits_violation = 12
    joint_motion_generator_velocity_limits_violation = 13
    joint_motion_generator_velocity_discontinuity = 14
    joint_motion_generator_acceleration_discontinuity = 15
    communication_constraints_violation = 25
    power_limit_violation = 26
    controller_torque_discontinuity = 32
    tau_J_range_violation = 34      # noqa: N815


ERRORS = 41
_NUMBERS: tuple[tuple[str, int], ...] = (
    ('O_T_EE', 16), ('O_T_EE_d', 16), ('F_T_EE', 16), ('EE_T_K', 16), ('F_T_NE', 16),
    ('NE_T_EE', 16), ('m_ee', 1), ('I_ee', 9), ('F_x_Cee', 3), ('m_load', 1), ('I_load', 9),
    ('F_x_Cload', 3), ('elbow', 2), ('elbow_d', 2), ('tau_J', DOF), ('tau_J_d', DOF),
    ('dtau_J', DOF), ('q', DOF), ('q_d', DOF), ('dq', DOF), ('dq_d', DOF), ('ddq_d', DOF),
    ('joint_contact', DOF), ('cartesian_contact', 6), ('joint_collision', DOF),
    ('cartesian_collision', 6), ('tau_ext_hat_filtered', DOF), ('O_F_ext_hat_K', 6),
    ('K_F_ext_hat_K', 6), ('O_dP_EE_d', 6), ('O_ddP_O', 3), ('elbow_c', 2), ('delbow_c', 2),
    ('ddelbow_c', 2), ('O_T_EE_c', 16), ('O_dP_EE_c', 6), ('O_ddP_EE_c', 6), ('theta', DOF),
    ('dtheta', DOF))
_ONLY_10 = (('accelerometer_top', 18), ('accelerometer_bottom', 18))
_COMMAND: list[tuple[Any, ...]] = [
    ('message_id', '<u8'), ('q_c', '<f8', (DOF,)), ('dq_c', '<f8', (DOF,)),
    ('O_T_EE_c', '<f8', (16,)), ('O_dP_EE_c', '<f8', (6,)), ('elbow_c', '<f8', (2,)),
    ('valid_elbow', 'u1'), ('motion_finished', 'u1'), ('tau_J_d', '<f8', (DOF,))]


def _state(number: str, fields: tuple[tuple[str, int], ...]) -> np.dtype[Any]:
    return np.dtype([('message_id', '<u8'), *((name, number, (size,)) for name, size in fields),
                     ('motion_generator_mode', 'u1'), ('controller_mode', 'u1'),
                     ('errors', 'u1', (ERRORS,)), ('reflex_reason', 'u1', (ERRORS,)),
                     ('robot_mode', 'u1'), ('control_command_success_rate', number)])


@dataclass(frozen=True)
class Dialect:
    """What differs between the versions; ``state`` and ``command`` are the datagrams."""

    version: int
    state: np.dtype[Any]
    command: np.dtype[Any]

    def command_of(self, number: int) -> FciCommand:
        """Return the command that a client sent; ValueError for an unknown number."""
        known = COMMANDS[self.version]
        if not 0 <= number < len(known):
            raise ValueError(f'there is no command {number} in version {self.version}')
        return FciCommand(known[number])

    def number_of(self, command: FciCommand) -> int:
        """Return the number of a command."""
        return COMMANDS[self.version].index(command)

    def move_status(self, status: MoveStatus) -> bytes:
        """Return the reply to a Move."""
        return bytes([status if self.version == 10 else MOVE_STATUS_5[status]])

    def is_finished(self, command: Any, torque: bool) -> bool:
        """Return whether a command ends its motion."""
        return bool(command['torque_finished' if torque and self.version == 10
                            else 'motion_finished'])


DIALECTS = {
    10: Dialect(10, _state('<f4', _NUMBERS + _ONLY_10),
                np.dtype([*_COMMAND, ('torque_finished', 'u1')])),
    5: Dialect(5, _state('<f8', _NUMBERS), np.dtype(_COMMAND)),
}
DIALECTS[9] = replace(DIALECTS[10], version=9)  # of an FR3 before system 5.9, which is refused
