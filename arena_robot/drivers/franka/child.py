"""
The control process of a Franka: one library, one connection, one loop.

Started by the driver with the file of the shared memory, the name of the library and its
configuration as JSON. Its loop reads a state, carries out the newest command and writes the state
down. It ends when the connection does, and with the driver's process.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import STILL_RAD_S, Floats, RobotMode
from arena_robot.drivers.franka.board import (
    FrankaBoard,
    FrankaCommand,
    FrankaOrder,
    FrankaRequest,
    FrankaState,
    ended,
)
from arena_robot.drivers.franka.client import (
    FrankaClient,
    FrankaConfig,
    FrankaLost,
    FrankaReading,
    FrankaRefused,
)
from arena_robot.safety.limits import min_jerk

PERIOD_NS = 4_000_000    # 250 Hz, where the client does not pace the loop
# A robot takes some 10 ms to be connected (franka_ros2's logs), libfranka misses states after 1 s.
CONNECT_NS, RECOVERY_NS, START_NS = 1_250_000_000, 15_000_000_000, 1_000_000_000
BEAT_NS = 500_000_000     # a parent that is silent for so long has ended or hangs: the arm holds
REST_NS = 400_000_000     # a motion begins at rest, or so much later
NEAR_RAD, LONGER_MS = 0.002, 300        # a motion ends near its goal, or so much after it was sent
RUNS = (RobotMode.IDLE, RobotMode.MOVE)
END_NS = 500_000_000      # a motion ends within some milliseconds
# libfranka then waits for ever for the end of the motion.
FELL_IDLE = 'the end of a motion in which it fell idle, as an FR3 may for libfranka before 0.20.5'
EARLY = 'the motion ended before its time'


class FrankaControl:
    """The loop; ``alive`` tells whether the driver's process is still there."""

    def __init__(self, board: FrankaBoard, client: FrankaClient,
                 alive: Callable[[], bool]) -> None:
        self._board, self._client, self._alive = board, client, alive
        self._state = FrankaState()
        self._order = FrankaOrder.HOLD
        self._command = FrankaCommand()
        self._from = np.zeros(0)
        self._begin_ms = self._goal_ms = 0      # of a motion; when its goal was first sent
        self._answered = 0
        self._answer = self._refusal = ''

    def run(self) -> None:
        """Work until the driver ends; raises DriverError when the connection ends."""
        # What was sent before is not carried out.
        self._command = self._board.command() or self._command
        self._answered = (self._board.request() or (0,))[0]
        self._busy(CONNECT_NS, 'what the library asks when it connects')
        self._client.connect()
        due = time.monotonic_ns()
        while self._alive():
            self.cycle()
            now_ns = time.monotonic_ns()
            due = now_ns if self._client.paced else max(due + PERIOD_NS, now_ns - PERIOD_NS)
            time.sleep(max(0.0, (due - time.monotonic_ns()) * 1e-9))
        self._end()

    def cycle(self) -> None:
        """Read a state, carry out the newest command and request, publish the state."""
        reading = self._client.read()
        ran = self._client.running
        try:
            self._play(self._obey(reading))
        except FrankaRefused as error:
            # A motion that ended since is refused too; the state that follows says why it ended.
            self._refusal = EARLY if ran and not self._client.running else str(error)
            self._end()
        if self._grant(self._board.request()):
            reading = self._settled()
        self._publish(reading)

    def _obey(self, reading: FrankaReading) -> FrankaReading:
        """Carry out the newest command; return the newest state."""
        command = self._board.command()
        if command is None or command.serial == self._command.serial:
            return reading
        self._command, self._refusal = command, ''
        if command.order is FrankaOrder.HOLD:
            self._end()
        elif reading.mode not in RUNS:
            self._refusal = f'not carried out: the robot is in {RobotMode(reading.mode).name}'
            self._end()
        elif command.order is FrankaOrder.TRACK:
            if self._order is not FrankaOrder.TRACK:
                reading = self._begin(FrankaOrder.TRACK)
            self._client.send(command.q)
        else:
            reading = self._begin(FrankaOrder.MOVE)
            self._from, self._begin_ms, self._goal_ms = reading.q, reading.robot_ms, 0
        return reading

    def _begin(self, order: FrankaOrder) -> FrankaReading:
        """Begin a motion where the arm is; return that state."""
        self._end()
        self._busy(START_NS, 'the start of a motion')
        reading, end_ns = self._client.read(), time.monotonic_ns() + REST_NS
        while np.max(np.abs(reading.dq)) > STILL_RAD_S and time.monotonic_ns() < end_ns:
            reading = self._client.read()
        self._client.start(order, reading.q)
        self._order = order
        return self._client.read()

    def _end(self, awaits: str = 'the end of a motion') -> None:
        if self._order is not FrankaOrder.HOLD:
            self._order = FrankaOrder.HOLD
            self._busy(END_NS, awaits)
            self._client.end()

    def _play(self, reading: FrankaReading) -> None:
        """Continue a motion, and end it when it is over or nobody commands it any more."""
        if self._order is FrankaOrder.HOLD:
            return
        now_ns = time.monotonic_ns()
        deserted = now_ns - self._board.last_beat_ns > BEAT_NS
        late = self._order is FrankaOrder.TRACK and now_ns > self._command.until_ns
        if deserted or late or not self._client.running:
            if reading.mode in RUNS and not late:
                self._refusal = 'the driver fell silent' if deserted else EARLY
            idle = not (deserted or late) and reading.mode == RobotMode.IDLE
            self._end(FELL_IDLE if idle else 'the end of a motion')
        elif self._order is FrankaOrder.TRACK:
            self._client.follow(reading)
        else:
            passed_ms = reading.robot_ms - self._begin_ms
            goal: Floats = self._command.q
            total_ms = max(1.0, self._command.duration_s * 1e3)
            self._client.send(min_jerk(self._from, goal, passed_ms / total_ms))
            if passed_ms <= total_ms:
                return
            self._goal_ms = self._goal_ms or reading.robot_ms
            near = bool(np.max(np.abs(reading.q - goal)) < NEAR_RAD)
            if near or reading.robot_ms - self._goal_ms > LONGER_MS:
                self._end()

    def _grant(self, asked: tuple[int, FrankaRequest, tuple[float, ...]] | None) -> bool:
        """Do what is asked once; return whether there was something."""
        if asked is None or asked[0] == self._answered:
            return False
        serial, request, values = asked
        self._answer = ''
        try:
            if request is FrankaRequest.RECOVER:
                self._busy(RECOVERY_NS, 'the recovery')
                self._end()
                self._client.recover()
            elif request is FrankaRequest.COLLISION:
                self._busy(START_NS, 'collision thresholds')
                self._client.set_collision(values[:7], values[7:14], values[14:20], values[20:])
        except FrankaRefused as error:
            self._answer = str(error)
        self._answered = serial
        return True

    def _settled(self) -> FrankaReading:
        """Return a state from after a recovery; the first ones may still show it."""
        reading, end_ns = self._client.read(), time.monotonic_ns() + START_NS
        while reading.mode == RobotMode.AUTOMATIC_ERROR_RECOVERY and time.monotonic_ns() < end_ns:
            reading = self._client.read()
        return reading

    def _busy(self, at_most_ns: int, awaits: str) -> None:
        """Tell the driver that the next call may take some time, and what is to be answered."""
        self._state = replace(self._state, awaits=awaits,
                              busy_until_ns=time.monotonic_ns() + at_most_ns)
        self._board.post_state(self._state)

    def _publish(self, reading: FrankaReading) -> None:
        new = reading.robot_ms != self._state.robot_ms
        if self._refusal == EARLY and reading.mode not in RUNS:
            self._refusal = ''      # this state came later, and says what ended the motion
        errors = reading.errors + ((self._refusal,) if self._refusal else ())
        self._state = FrankaState(
            self._state.count + new, time.monotonic_ns() if new else self._state.read_ns,
            reading.robot_ms, self._command.serial, self._answered, 0, reading.mode, self._order,
            self._client.version, reading.success_rate, reading.q, reading.dq, reading.tau,
            reading.tau_ext, reading.q_d, errors, '', self._answer)
        self._board.post_state(self._state)


def client_of(library: str, config: FrankaConfig) -> FrankaClient:
    """Return the client of a library; only its own module imports it."""
    if library == 'franka_rs':
        from arena_robot.drivers.franka.rs import FrankaRsClient
        return FrankaRsClient(config)
    from arena_robot.drivers.franka.libfranka import LibfrankaClient
    return LibfrankaClient(config)


def main(arguments: list[str]) -> int:
    """Run a control process; the exit code is 0 when the driver has ended."""
    path, library, text = arguments
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value
                              for name, value in json.loads(text).items()}
    board, driver = FrankaBoard(Path(path)), os.getppid()
    try:
        FrankaControl(board, client_of(library, FrankaConfig(**values)),
                      lambda: os.getppid() == driver).run()
    except (DriverError, ImportError) as error:
        words = str(error)
        board.post_state(ended(board.state(), words))
        sys.stderr.write(f'{words}\n')
        return 3 if isinstance(error, FrankaLost) else 4
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
