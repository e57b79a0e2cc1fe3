"""
The protocol of a control box: its modes, what it answers, and what ends a motion.

Clients get the arm's URDF from it: kinematics, inertias and limits.
"""

import struct
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from arena_robot.core.observation import STILL_RAD_S, RobotMode
from arena_robot.drivers.emulators.fci_client import FciClient, FciFaults
from arena_robot.drivers.emulators.fci_motion import TICK_S, FciMotion, collided, fill
from arena_robot.drivers.franka.wire import (
    BAD_VALUE,
    CONNECT,
    CONNECTED,
    DEVIATIONS,
    DIALECTS,
    DONE,
    ERRORS,
    MOVE,
    NOT_POSSIBLE,
    RECOVERY_UNSAFE,
    SIZES,
    VERSIONS,
    FciCommand,
    FciController,
    FciError,
    FciGenerator,
    MoveStatus,
)
from arena_robot.drivers.sim.arm_control import Phase
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import DOF, FRANKA_FLANGE_M, Robot
from arena_robot.safety.urdf import inertial, joint_origins

FOR_EVER_S = 1e9        # the station itself must not hold: the box decides
RECOVERY_TICKS = 100    # ms that an error recovery takes
IDLE_TICKS = 8          # between two steps of an arm that stands still
MOVES = (RobotMode.IDLE, RobotMode.MOVE)
# Of each joint: what the FR3's own description says about speed near the ends of its range.
VELOCITY_OFFSET = (0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35)
DECELERATION = (6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0)


class FciBox:
    """
    A control box for one client at a time; its owner calls ``_tick`` a thousand times a second.

    ``events`` is the box's log: milliseconds of its time and words, among them ``at rest``.
    ``settings`` has the values that clients have set.
    """

    def __init__(self, robot: str, version: int | None, task: str, patience_s: float) -> None:
        self.station = SimStation.make(task, robot=robot, cameras=(), epoch_ns=time.time_ns(),
                                       command_timeout_s=FOR_EVER_S)
        self.faults = FciFaults()
        self.mode = RobotMode.IDLE
        self.programming = False        # Desk's programming mode: FCI may read, not move
        self.settings: dict[FciCommand, tuple[float, ...]] = {}
        self.events: deque[tuple[int, str]] = deque(maxlen=10_000)
        self.ticks = 0
        self._dialect = DIALECTS[VERSIONS[robot] if version is None else version]
        self._urdf = box_urdf(self.station.robot)
        self._patience_s = patience_s
        self._state = np.zeros((), self._dialect.state)
        for name in ('F_T_EE', 'EE_T_K', 'F_T_NE', 'NE_T_EE'):
            self._state[name][...] = np.eye(4).ravel()
        self._client: FciClient | None = None
        self._motion: FciMotion | None = None
        self._move_call: int | None = None
        self._due: list[tuple[int, Callable[[], None]]] = []
        self._moving = False

    def _tick(self) -> None:
        self.ticks += 1
        for entry in [entry for entry in self._due if entry[0] <= self.ticks]:
            self._due.remove(entry)
            entry[1]()
        if self._motion is not None and self._motion.shown is not None:
            self._control(self._motion, self._motion.shown)
        if collided(self.station) and self.mode in MOVES:
            self._abort(MoveStatus.REFLEX_ABORTED, RobotMode.REFLEX, (FciError.joint_reflex,))
        if self._moving or self._motion is not None or self.ticks % IDLE_TICKS == 0:
            self.station.step(TICK_S if self._moving or self._motion else IDLE_TICKS * TICK_S)
            self._note_rest(fill(self._state, self.station, self._motion))
        self._state['message_id'] = self.ticks
        self._state['robot_mode'] = self.mode
        if self._client is not None:
            self._client.send_state(self._state, self.ticks)
        if self._motion is not None and self._motion.shown is None:
            self._motion.shown = self.ticks

    def _control(self, motion: FciMotion, since: int) -> None:
        client = self._client
        assert client is not None
        # One that answers an older state comes too late, and is dropped.
        since = self.ticks - 1 if motion.answered else since
        lost, end_s = client.lost, time.monotonic() + self._patience_s
        command = client.command(since)
        asked = not motion.answered or self.faults.broken or client.sent < self.ticks - 1
        while command is None and not asked and client.lost == lost and (
                left_s := end_s - time.monotonic()) > 0.0:
            asked = client.wait(left_s)
            command = client.command(since)
        outcome = motion.step(command)
        if isinstance(outcome, FciError):
            self._abort(MoveStatus.REFLEX_ABORTED, RobotMode.REFLEX, (outcome,))
        elif outcome:
            self._abort(MoveStatus.SUCCESS, RobotMode.IDLE)
        elif motion.arrived and self.faults.spend('falls_idle'):
            self._move_call = None      # which is never answered
            self._abort(MoveStatus.SUCCESS, RobotMode.IDLE)

    def _note_rest(self, speed: float) -> None:
        moving = speed > STILL_RAD_S
        if self._moving and not moving:
            self._log('at rest')
        self._moving = moving

    # -- what clients ask for ------------------------------------------------------------------

    def _answer(self, command: FciCommand, call: int, payload: bytes) -> None:
        client = self._client
        assert client is not None
        if command is FciCommand.CONNECT:
            version, port = CONNECT.unpack(payload)
            fits = version == self._dialect.version
            client.reply(command, call, CONNECTED.pack(not fits, self._dialect.version))
            if fits:
                client.send_states_to(port)
                self._log('connected')
        elif command is FciCommand.MOVE:
            self._move(call, payload)
        elif command is FciCommand.STOP_MOVE:
            client.reply(command, call, bytes([DONE]))
            if self._motion is not None:
                self._abort(MoveStatus.PREEMPTED, RobotMode.IDLE)
        elif command is FciCommand.AUTOMATIC_ERROR_RECOVERY:
            self._recover(call)
        elif command is FciCommand.GET_ROBOT_MODEL:
            client.reply(command, call, bytes([DONE]) + self._urdf.encode())
        elif command in self.faults.refused or command is FciCommand.LOAD_MODEL_LIBRARY:
            client.reply(command, call, bytes([NOT_POSSIBLE]))
        else:
            self._set(command, call, payload)

    def _set(self, command: FciCommand, call: int, payload: bytes) -> None:
        good = len(payload) == SIZES.get(command, len(payload))
        if good and command in SIZES:
            values = struct.unpack(f'<{len(payload) // 8}d', payload)
            good = bool(np.all(np.isfinite(values)))
            self.settings[command] = values
            if good and command is FciCommand.SET_COLLISION_BEHAVIOR:
                self.station.world.arm.collision_nm = np.array(values[3 * DOF:4 * DOF])
        assert self._client is not None
        self._client.reply(command, call, bytes([DONE if good else BAD_VALUE]))

    def _move(self, call: int, payload: bytes) -> None:
        assert self._client is not None
        asked, shown = MOVE.unpack_from(payload)
        rest = payload[MOVE.size + DEVIATIONS:]
        speed = np.frombuffer(rest[1:], '<f8') if rest[:1] == b'\1' else None
        refused = (self.mode is not RobotMode.IDLE or self._motion is not None
                   or FciCommand.MOVE in self.faults.refused)
        status = (MoveStatus.REJECTED_FOR_SAFETY if self.programming else
                  MoveStatus.NOT_POSSIBLE if refused else MoveStatus.INVALID
                  if asked > 2 or shown not in (0, 1, 4) else MoveStatus.MOTION_STARTED)
        self._client.reply(FciCommand.MOVE, call, self._dialect.move_status(status))
        if status is not MoveStatus.MOTION_STARTED:
            return
        self._move_call = call

        def begin() -> None:
            if self._move_call == call and self.station.world.arm.phase is Phase.BRAKE:
                self._due.append((self.ticks + 1, begin))
            elif self._move_call == call:
                self._motion = FciMotion(self.station, self._dialect, FciController(asked),
                                         FciGenerator(shown + 1), speed)
                self._enter(RobotMode.MOVE)
                self._log(f'moves: {self._motion.generator.name}, {FciController(asked).name}')
        self._due.append((self.ticks + 2, begin))

    def _recover(self, call: int) -> None:
        client, refused = self._client, FciCommand.AUTOMATIC_ERROR_RECOVERY in self.faults.refused
        assert client is not None
        if self.programming:
            client.reply(FciCommand.AUTOMATIC_ERROR_RECOVERY, call, bytes([RECOVERY_UNSAFE]))
            return
        if refused or self.mode not in (RobotMode.IDLE, RobotMode.REFLEX):
            client.reply(FciCommand.AUTOMATIC_ERROR_RECOVERY, call, bytes([NOT_POSSIBLE]))
            return

        def recovered() -> None:
            if self.mode is RobotMode.AUTOMATIC_ERROR_RECOVERY:
                self._enter(RobotMode.IDLE)
                client.reply(FciCommand.AUTOMATIC_ERROR_RECOVERY, call, bytes([DONE]))
        self._enter(RobotMode.AUTOMATIC_ERROR_RECOVERY)
        self._due.append((self.ticks + RECOVERY_TICKS, recovered))

    # -- ends ----------------------------------------------------------------------------------

    def _abort(self, status: MoveStatus, mode: RobotMode,
               errors: tuple[FciError, ...] = ()) -> None:
        """End a motion, if there is one: brake, say why, and enter ``mode``."""
        self._flag(errors)
        self.station.world.arm.brake()
        self._motion = None
        self._enter(mode)
        self._log(' '.join((status.name.lower(), mode.name.lower(), *(e.name for e in errors))))
        if self._client is not None and self._move_call is not None:
            self._client.reply(FciCommand.MOVE, self._move_call,
                               self._dialect.move_status(status))
        self._move_call = None

    def _enter(self, mode: RobotMode) -> None:
        self.mode = mode
        if mode is RobotMode.IDLE:
            self._flag(())
            if collided(self.station):
                self.station.world.arm.recover(self.station.world.data)

    def _flag(self, errors: tuple[FciError, ...]) -> None:
        flags = np.zeros(ERRORS, dtype=np.uint8)
        flags[[int(error) for error in errors]] = 1
        self._state['errors'][...] = flags
        if errors:
            self._state['reflex_reason'][...] = flags

    def _part(self, why: str) -> None:
        """End the connection; a motion ends with it, and the arm brakes."""
        if self._client is None:
            return
        self._log(why)
        self._client.close()
        if self._motion is not None:
            self._abort(MoveStatus.ABORTED, RobotMode.REFLEX,
                        (FciError.communication_constraints_violation,))
        self._client, self._move_call = None, None

    def _log(self, words: str) -> None:
        self.events.append((self.ticks, words))


def box_urdf(robot: Robot) -> str:
    """Return the text, with ``link0`` to ``link8`` and ``joint1`` to ``joint8``."""
    lines = [f'<?xml version="1.0"?><robot name="{robot.name}"><link name="link0"/>']
    limits = robot.limits
    for i, ((x, y, z), (roll, _, _)) in enumerate(joint_origins(robot)):
        lines.append(
            f'<link name="link{i + 1}">{inertial(robot.links[i])}</link>'
            f'<joint name="joint{i + 1}" type="revolute"><origin rpy="{roll!r} 0 0" '
            f'xyz="{x!r} {y!r} {z!r}"/><parent link="link{i}"/><child link="link{i + 1}"/>'
            f'<axis xyz="0 0 1"/><limit effort="{robot.joint_torque[i]!r}" '
            f'velocity="{robot.joint_velocity[i]!r}" lower="{limits.hardware_lower[i]!r}" '
            f'upper="{limits.hardware_upper[i]!r}"/><position_based_velocity_limits '
            f'velocity_offset="{VELOCITY_OFFSET[i]}" deceleration_limit="{DECELERATION[i]}"/>'
            '</joint>')
    lines.append(
        f'<link name="link{DOF + 1}"/><joint name="joint{DOF + 1}" type="fixed">'
        f'<origin rpy="0 0 0" xyz="0 0 {FRANKA_FLANGE_M!r}"/><parent link="link{DOF}"/>'
        f'<child link="link{DOF + 1}"/></joint></robot>')
    return '\n'.join(lines)
