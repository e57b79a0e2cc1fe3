"""
The interfaces of robot parts.

They specify timing as well as data: the newest reading with a maximum age, or the next one with a
timeout. Sending a command returns the command that was really sent. Constructors only store;
``open`` connects, or raises with everything closed; ``close`` can be called at any time and
repeatedly. Methods may be called from any thread.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, runtime_checkable

from typing_extensions import Self

from arena_robot.core.action import Action, ArmCommand, GripperCommand, SafeCommand
from arena_robot.core.observation import (
    ArmState,
    CameraInfo,
    DepthImage,
    Floats,
    GripperState,
    Image,
)
from arena_robot.robots.arms import Robot
from arena_robot.safety.reflexes import CollisionThresholds


class Part(Protocol):
    """What all robot parts share."""

    def open(self) -> None:
        """Connect and read the first state; no motion. Raises NotConnected, closed again."""

    def close(self) -> None:
        """Stop and disconnect."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None: ...


class Arm(Part, Protocol):
    """An arm with n joints that tracks joint targets."""

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state; StaleData when it is older than ``max_age_s``."""

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next new state; ReadTimeout when none comes within ``timeout_s``."""

    def command(self, command: ArmCommand) -> ArmCommand:
        """
        Track ``command.q`` from now on; return the target that is really tracked.

        Never blocks. When no further command comes within the driver's command timeout the arm
        holds its position. Raises SafetyError for a command that is not finite or not (n,), and
        DriverError while ``recovery_required``.
        """

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """
        Start a min-jerk motion to ``q`` (n,) rad and return how long it takes in seconds.

        ``duration_s`` None is DROID's: clamp(max(1, max|dq| * 8 / v_limit), 0, 4) s. Does not
        block; a ``command`` or ``stop`` replaces the motion.
        """

    def stop(self) -> None:
        """Come to rest at once and hold; earlier commands are dropped. Works in every state."""

    def recover(self) -> None:
        """Clear a reflex or user stop, then hold at the measured pose. DriverError if it fails."""


@dataclass(frozen=True)
class ArmDescription:
    """
    What an arm is: its row, the driver behind it, its reset pose (n,) rad.

    ``robot_type`` is the embodiment that it was started as, a name or a file; '': the row's name.
    """

    robot: Robot
    backend: str
    reset_joints: tuple[float, ...]
    robot_type: str = ''


class ActingArm(Arm, Protocol):
    """An arm behind the safety layer, which alone decides what its driver gets."""

    def description(self) -> ArmDescription:
        """Return what the arm is; NotConnected where it has not said so yet."""

    def act(self, action: Action, stamp_ns: int) -> 'Future[SafeCommand]':
        """
        Carry out a policy's action that was decided at ``stamp_ns``.

        Never blocks. The future has the target that the driver accepted, and every change that was
        made to the action; or LateCommand while the command before it stays in force, SafetyError
        for an action that may not be carried out, DriverError when the driver did not take it.
        """

    def halt(self) -> None:
        """Stop for a session: come to rest, and refuse every command until :meth:`resume`."""

    def resume(self) -> None:
        """Release :meth:`halt`; a stop that the lab latched stays in force. Nothing moves."""


@runtime_checkable
class StopsInCollision(Protocol):
    """An optional interface of an arm: collision thresholds that can be set."""

    def set_collision_behavior(self, thresholds: CollisionThresholds) -> None:
        """Stop by reflex above these thresholds from now on. DriverError if it fails."""


class Gripper(Part, Protocol):
    """A two-finger gripper."""

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest state; StaleData when it is older than ``max_age_s``."""

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return the next new state; ReadTimeout when none comes within ``timeout_s``."""

    def command(self, command: GripperCommand) -> GripperCommand:
        """Go to a position; replaces earlier commands; return what was really sent."""

    def stop(self) -> None:
        """Stop the fingers where they are."""

    def activate(self) -> None:
        """Activate, or re-activate after a fault; DriverError if it fails."""


@dataclass(frozen=True)
class StereoFrame:
    """
    Both eyes of one grab, with one stamp; ``dropped`` counts grabs lost since open.

    A camera with one eye has a right image of shape (0, 0, 3), one that measures it ``depth``.
    """

    left: Image
    right: Image
    sequence: int
    dropped: int = 0
    depth: DepthImage | None = None


@dataclass(frozen=True)
class Setting:
    """A number that may change while its part runs: what it means, and its range."""

    description: str
    low: float
    high: float
    unit: str = ''


@runtime_checkable
class AdjustsPicture(Protocol):
    """An optional interface of a camera: settings of its picture that change while it runs."""

    @classmethod
    def settings(cls) -> Mapping[str, Setting]:
        """Return the settings by the names of the constructor's arguments."""

    def set_picture(self, values: Mapping[str, float]) -> None:
        """
        Take these values of all settings from one of the next frames on.

        Raises ConfigError for a value that the camera does not have; nothing has changed then.
        """


class Camera(Part, Protocol):
    """A camera with both eyes, one, or one and depth; ``serial`` names the device."""

    serial: str

    def info(self) -> Mapping[str, CameraInfo]:
        """Return the geometry of the eyes that it has, of ``'left'`` and ``'right'``."""

    def frame(self, max_age_s: float = 0.2) -> StereoFrame:
        """Return the newest frame; StaleData when it is older than ``max_age_s``."""

    def wait_frame(self, timeout_s: float) -> StereoFrame:
        """Return the next new frame; ReadTimeout when none comes within ``timeout_s``."""

    def arrivals(self) -> Sequence[tuple[int, int]]:
        """
        Return (stamp_ns, came_ns) of the newest frames since open, oldest first.

        Empty for a camera without its own rate, which captures on request.
        """
