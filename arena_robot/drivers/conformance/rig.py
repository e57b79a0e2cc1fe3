"""A driver under test, and what the checks may do to it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from arena_robot.core.clock import Clock
from arena_robot.core.conformance import CheckFailed, CheckSkipped
from arena_robot.core.errors import ArenaError
from arena_robot.drivers.base import Arm, Camera, Gripper, Part
from arena_robot.robots.arms import PANDA, Robot
from arena_robot.robots.grippers import ROBOTIQ_2F85, GripperModel

P = TypeVar('P', bound=Part)
M = TypeVar('M', Arm, Gripper)


def _nothing() -> None:
    """Do nothing."""


@dataclass
class Rig(Generic[P]):
    """
    One part, not yet open, and its surroundings.

    The part's stamps are times of ``clock``. ``silence`` makes the part give no new readings from
    now on, ``trip`` causes its fault, ``mend`` undoes both; None where no program can do that.
    Readings come at ``rate_hz`` or faster, the newest may be ``max_age_s`` old, and a reading
    shows a command within ``latency_s``. ``harmless``: nothing real moves. ``withheld`` names the
    checks that are left out, each with the reason.
    """

    protocol: ClassVar[type] = Part

    part: P
    clock: Clock
    silence: Callable[[], None] | None = None
    trip: Callable[[], None] | None = None
    mend: Callable[[], None] = _nothing
    rate_hz: float = 15.0
    max_age_s: float = 0.2
    latency_s: float = 0.0
    harmless: bool = False
    withheld: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], None] | None = None

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on the part's clock."""
        if self.sleep is not None:
            self.sleep(seconds)
        else:
            self.clock.sleep_until_ns(self.clock.now_ns() + round(seconds * 1e9))

    def newest_ns(self, max_age_s: float | None = None) -> int:
        """Return the stamp of the newest reading."""
        raise NotImplementedError

    def next_ns(self, timeout_s: float = 2.0) -> int:
        """Return the stamp of the next reading."""
        raise NotImplementedError

    def _age_s(self, given_s: float | None) -> float:
        return self.max_age_s if given_s is None else given_s

    def halt(self) -> None:
        """Stop what moves."""

    @contextmanager
    def opened(self) -> Iterator[P]:
        """Open the part; whatever ends the check early stops it before it is closed."""
        with self.part:
            try:
                yield self.part
            except BaseException:
                self.halt()
                raise


@dataclass
class MovingRig(Rig[M]):
    """A part that moves and can be stopped."""

    def newest_ns(self, max_age_s: float | None = None) -> int:
        """Return the stamp of the newest state."""
        return self.part.state(self._age_s(max_age_s)).stamp_ns

    def next_ns(self, timeout_s: float = 2.0) -> int:
        """Return the stamp of the next state."""
        return self.part.wait_state(timeout_s).stamp_ns

    def halt(self) -> None:
        """Stop the part; it holds."""
        self.part.stop()


@dataclass
class ArmRig(MovingRig[Arm]):
    """An arm, ``robot`` its row; ``joints``: indices of those that a motion may use, (): all."""

    protocol = Arm

    robot: Robot = PANDA
    joints: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.joints = self.joints or tuple(range(self.robot.joints))


@dataclass
class GripperRig(MovingRig[Gripper]):
    """A gripper; ``model`` is its row."""

    protocol = Gripper

    model: GripperModel = ROBOTIQ_2F85


@dataclass
class CameraRig(Rig[Camera]):
    """A camera; ``own_rate`` says whether it takes pictures by itself, None: not known."""

    protocol = Camera

    own_rate: bool | None = None

    def newest_ns(self, max_age_s: float | None = None) -> int:
        """Return the stamp of the newest frame."""
        return self.part.frame(self._age_s(max_age_s)).left.stamp_ns

    def next_ns(self, timeout_s: float = 2.0) -> int:
        """Return the stamp of the next frame."""
        return self.part.wait_frame(timeout_s).left.stamp_ns


AnyRig = ArmRig | GripperRig | CameraRig


def refused(sent: str, call: Callable[[], object], error: type[ArenaError], mention: str) -> None:
    """Raise CheckFailed unless ``call`` raises ``error`` with a message that has ``mention``."""
    change = f"raise {error.__name__} with a message that says '{mention}'"
    try:
        call()
    except error as raised:
        if mention not in str(raised):
            raise CheckFailed(sent, f'{error.__name__}: {raised}', change) from raised
    except Exception as raised:
        raise CheckFailed(sent, f'{type(raised).__name__}: {raised}', change) from raised
    else:
        raise CheckFailed(sent, 'an answer, no error', change)


def hold(sent: str, good: bool, received: object, change: str) -> None:
    """Raise CheckFailed unless ``good``."""
    if not good:
        raise CheckFailed(sent, str(received), change)


def needed(call: Callable[[], None] | None, means: str) -> Callable[[], None]:
    """Return ``call``; CheckSkipped when this rig has none."""
    if call is None:
        raise CheckSkipped(f'no program can {means} here')
    return call
