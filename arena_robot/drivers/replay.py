"""
Drivers that replay a recording: recorded states and images, on a given clock.

Playback begins when a :class:`Player` is made or rewound; stamps are shifted to the clock, so ages
are as in the recording. Commands are checked and stored, but have no effect.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.camera import CameraInfo
from arena_robot.core.clock import Clock
from arena_robot.core.errors import DriverError, ReadTimeout, SafetyError, StaleData
from arena_robot.core.observation import EYES, ArmState, Floats, GripperState, Image, Pixels
from arena_robot.drivers.arrivals import KEPT
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.part import Opened
from arena_robot.drivers.recorded import Recorded, Stamps, Track, read_recorded, views_of
from arena_robot.robots.arms import DOF
from arena_robot.robots.grippers import ROBOTIQ_2F85

_KEPT = 1000


class Player:
    """Maps a clock's time to a recording's; parts of one episode share a player."""

    def __init__(self, recorded: Recorded, clock: Clock) -> None:
        self.recorded, self.clock = recorded, clock
        self.rewind()

    def rewind(self) -> None:
        """Restart at the current time."""
        self.offset_ns = self.clock.now_ns() - self.recorded.start_ns

    def newest(self, stamps: Stamps) -> int:
        """Return the row of the newest reading, 0 before the first."""
        now_ns = self.clock.now_ns() - self.offset_ns
        return max(0, int(np.searchsorted(stamps, now_ns, side='right')) - 1)

    def next(self, stamps: Stamps, timeout_s: float, what: str) -> int:
        """Wait for the next reading and return its row; ReadTimeout when it comes too late."""
        row = self.newest(stamps) + 1
        end_ns = self.clock.now_ns() + round(timeout_s * 1e9)
        due_ns = int(stamps[row]) + self.offset_ns if row < len(stamps) else end_ns + 1
        self.clock.sleep_until_ns(min(due_ns, end_ns))
        if due_ns > end_ns:
            raise ReadTimeout(f'no {what} in the recording within {timeout_s} s')
        return row

    def fresh(self, stamps: Stamps, max_age_s: float, what: str) -> int:
        """Return the row of the newest reading; StaleData when it is too old."""
        row = self.newest(stamps)
        age_s = (self.clock.now_ns() - self.offset_ns - int(stamps[row])) * 1e-9
        if age_s > max_age_s:
            raise StaleData(f'newest {what} is {age_s:.3f} s old, accepted are {max_age_s} s; '
                            'has the recording ended?')
        return row


def open_recorded(folder: str | Path, clock: Clock) -> Player:
    """Read an episode folder and begin to play it; DataError when it cannot be read."""
    return Player(read_recorded(folder), clock)


def replayed(kind: str, player: Player, role: str = '', focal: float = 0.414,
             ) -> 'ReplayArm | ReplayGripper | ReplayCamera':
    """
    Return the part of ``kind`` ('arm', 'gripper', 'camera') that plays a recording.

    A recording does not hold the geometry of its cameras: ``focal`` is their focal length as a
    share of the width. Raises DataError when there are no pictures of the camera's role.
    """
    if kind != 'camera':
        return ReplayArm(player) if kind == 'arm' else ReplayGripper(player)
    tracks = views_of(role, player.recorded)
    height, width = next(iter(tracks.values())).picture(0).shape[:2]
    f = focal * width
    k = np.array([[f, 0.0, (width - 1) / 2], [0.0, f, (height - 1) / 2], [0.0, 0.0, 1.0]])
    return ReplayCamera(player, role, dict.fromkeys(EYES, CameraInfo(width, height, k, 0.0, '')))


class ReplayArm(Opened):
    """A recorded arm; ``commands`` has the newest commands sent to it."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.commands: deque[ArmCommand] = deque(maxlen=_KEPT)

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest recorded state."""
        self._require_open('the replayed arm')
        return self._state(self._player.fresh(self._stamps, max_age_s, 'arm state'))

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next recorded state."""
        self._require_open('the replayed arm')
        return self._state(self._player.next(self._stamps, timeout_s, 'arm state'))

    def command(self, command: ArmCommand) -> ArmCommand:
        """Store a command; return the recording's target."""
        self._require_open('the replayed arm')
        self._checked(command.q)
        self.commands.append(command)
        row = self._player.newest(self._stamps)
        return ArmCommand(self._player.recorded.q_desired[row].copy(), command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Raise DriverError: a recording cannot be moved."""
        self._require_open('the replayed arm')
        self._checked(q)
        raise DriverError('a replayed arm does not move; use the simulated one to try motions')

    def stop(self) -> None:
        """Do nothing: nothing moves."""

    def recover(self) -> None:
        """Do nothing: a recording needs no recovery."""
        self._require_open('the replayed arm')

    @property
    def _stamps(self) -> Stamps:
        return self._player.recorded.arm_stamps

    def _checked(self, q: Floats) -> None:
        values = np.asarray(q, dtype=float)
        if values.shape != (DOF,) or not np.all(np.isfinite(values)):
            raise SafetyError(f'an arm target must be {DOF} finite numbers, got {q!r}')

    def _state(self, row: int) -> ArmState:
        r = self._player.recorded
        return ArmState(int(self._stamps[row]) + self._player.offset_ns, q=r.q[row].copy(),
                        dq=r.dq[row].copy(), tau=r.tau[row].copy(), tau_ext=np.zeros(DOF),
                        pose=r.pose[row].copy(), q_desired=r.q_desired[row].copy())


class ReplayGripper(Opened):
    """A recorded gripper; ``commands`` has the newest commands sent to it."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.commands: deque[GripperCommand] = deque(maxlen=_KEPT)

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest recorded state."""
        self._require_open('the replayed gripper')
        return self._state(self._player.fresh(self._stamps, max_age_s, 'gripper state'))

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return the next recorded state."""
        self._require_open('the replayed gripper')
        return self._state(self._player.next(self._stamps, timeout_s, 'gripper state'))

    def command(self, command: GripperCommand) -> GripperCommand:
        """Store a command clipped to 0..1."""
        self._require_open('the replayed gripper')
        asked = np.array([command.position, command.speed, command.force], dtype=float)
        if not np.all(np.isfinite(asked)):
            raise SafetyError(f'a gripper command must be finite, got {command}')
        position, speed, force = (float(v) for v in np.clip(asked, 0.0, 1.0))
        sent = GripperCommand(position, command.stamp_ns, speed, force)
        self.commands.append(sent)
        return sent

    def stop(self) -> None:
        """Do nothing: nothing moves."""

    def activate(self) -> None:
        """Do nothing: a recording needs no activation."""
        self._require_open('the replayed gripper')

    @property
    def _stamps(self) -> Stamps:
        return self._player.recorded.gripper_stamps

    def _state(self, row: int) -> GripperState:
        position = float(self._player.recorded.gripper[row])
        return GripperState(int(self._stamps[row]) + self._player.offset_ns, position,
                            ROBOTIQ_2F85.width_m(position), requested_position=position)


class ReplayCamera(Opened):
    """The recorded views of one camera role; an eye that was not recorded is (0, 0, 3)."""

    def __init__(self, player: Player, role: str, infos: Mapping[str, CameraInfo],
                 serial: str = 'replay') -> None:
        self._player, self.role, self.serial = player, role, serial
        self._infos = dict(infos)
        self._eyes: dict[str, Track] = {}
        self._reading = threading.Lock()

    def open(self) -> None:
        """Find the views; DataError when the recording has none of this role."""
        self._eyes = views_of(self.role, self._player.recorded)
        super().open()

    def info(self) -> Mapping[str, CameraInfo]:
        """Return the geometry given to the constructor."""
        return dict(self._infos)

    def frame(self, max_age_s: float = 0.2) -> StereoFrame:
        """Return the newest recorded frame."""
        self._require_open(f'the replayed {self.role} camera')
        return self._frame(self._player.fresh(self._stamps, max_age_s, f'{self.role} frame'))

    def wait_frame(self, timeout_s: float) -> StereoFrame:
        """Return the next recorded frame."""
        self._require_open(f'the replayed {self.role} camera')
        return self._frame(self._player.next(self._stamps, timeout_s, f'{self.role} frame'))

    def arrivals(self) -> Sequence[tuple[int, int]]:
        """Return the stamps of the newest frames; they arrive without delay."""
        self._require_open(f'the replayed {self.role} camera')
        end = self._player.newest(self._stamps) + 1
        shown = self._stamps[max(end - KEPT, 0):end] + self._player.offset_ns
        return [(stamp, stamp) for stamp in shown.tolist()]

    @property
    def _stamps(self) -> Stamps:
        return self._eyes['left'].stamps

    def _frame(self, row: int) -> StereoFrame:
        stamp_ns = int(self._stamps[row])
        images = {}
        for eye in EYES:
            track = self._eyes.get(eye)
            at = int(np.searchsorted(track.stamps, stamp_ns)) if track is not None else 0
            seen = track is not None and at < len(track.stamps) and track.stamps[at] == stamp_ns
            pixels: Pixels = np.zeros((0, 0, 3), np.uint8)
            if track is not None and seen:
                with self._reading:
                    pixels = track.picture(at)
            images[eye] = Image(pixels, stamp_ns + self._player.offset_ns)
        return StereoFrame(images['left'], images['right'], row)
