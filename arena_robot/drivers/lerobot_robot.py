"""
A robot of LeRobot that several parts of a station share: the backend ``lerobot:TYPE``.

``TYPE`` is a name that LeRobot knows, such as ``so101_follower``, that of an installed package
``lerobot_robot_…``, or ``module:Class``. One object of LeRobot is arm, gripper and cameras at
once. So its parts must be in one process, as ``arena station`` starts them: there they share the
object, which one thread alone reads and commands. A mapping file says what its numbers are.
"""

import importlib
import logging
import pkgutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, cast

from arena_robot.core.clock import Clock
from arena_robot.core.config import load, nearest
from arena_robot.core.errors import ArenaError, ConfigError, DriverError, NotConnected
from arena_robot.core.extensions import load_object
from arena_robot.drivers.table import LEROBOT

log = logging.getLogger(__name__)

AGAIN_S = 1.0       # between two attempts to connect
JOIN_S = 2.0        # until the thread has let go of the robot
STOP_S = 1.0        # until the robot has the target that stops it: a round of 1 Hz or more


class JointUnit(str, Enum):
    """What LeRobot's number of a joint is: an angle, or a share of the calibrated range."""

    RADIANS = 'radians'
    DEGREES = 'degrees'
    NORMALISED = 'normalised'
    PERCENT = 'percent'


@dataclass(frozen=True)
class JointMap:
    """
    A joint of the arm in LeRobot's numbers.

    ``name`` is LeRobot's. ``normalised`` numbers are -100 at the lower and 100 at the upper end of
    the arm's own range, ``percent`` ones 0 and 100. ``sign`` is -1 where it turns the other way;
    ``zero`` is LeRobot's number where ours is 0, or the middle of the range of ``normalised``
    numbers, or its lower end of ``percent`` ones.
    """

    name: str
    unit: JointUnit
    sign: float = 1.0
    zero: float = 0.0

    def __post_init__(self) -> None:
        if self.sign not in (-1.0, 1.0):
            raise ValueError(f'sign must be 1 or -1, found {self.sign:g}')


@dataclass(frozen=True)
class FingerMap:
    """The gripper: LeRobot's name, and its numbers where the fingers are open and closed."""

    name: str
    open: float = 100.0
    closed: float = 0.0

    def __post_init__(self) -> None:
        if self.open == self.closed:
            raise ValueError('open and closed must be two different numbers')


@dataclass(frozen=True)
class PictureMap:
    """A camera: LeRobot's name, and its focal length as a share of the picture's width."""

    name: str
    focal: float


@dataclass(frozen=True)
class LeRobotMapping:
    """
    A mapping file: ``robot`` has the fields of LeRobot's configuration, such as ``port``.

    ``joints`` by the names of the arm's joints, ``cameras`` by role. The robot is read and
    commanded ``rate`` times a second (Hz).
    """

    robot: Mapping[str, Any] = field(default_factory=dict)
    joints: Mapping[str, JointMap] = field(default_factory=dict)
    gripper: FingerMap | None = None
    cameras: Mapping[str, PictureMap] = field(default_factory=dict)
    rate: float = 30.0

    def __post_init__(self) -> None:
        if not 1.0 <= self.rate <= 200.0:
            raise ValueError(f'rate must be 1 to 200 Hz, found {self.rate:g}')

    def check(self, robot: 'LeRobot', what: str) -> None:
        """Raise ConfigError for a name that the robot lacks, and a number that nobody commands."""
        numbers = [joint.name for joint in self.joints.values()]
        numbers += [self.gripper.name] if self.gripper else []
        for name in (*numbers, *(picture.name for picture in self.cameras.values())):
            if name not in robot.observation_features:
                raise ConfigError(f"{what} has no '{name}'."
                                  f'{nearest(name, map(str, robot.observation_features))}')
        if missing := [name for name in robot.action_features if name not in numbers]:
            raise ConfigError(f"the mapping lacks {', '.join(missing)} of {what}: give each under "
                              'joints or gripper')


class LeRobot(Protocol):
    """What is used of LeRobot's ``Robot``."""

    @property
    def observation_features(self) -> Mapping[str, Any]:
        """Numbers and shapes of pictures by name."""

    @property
    def action_features(self) -> Mapping[str, Any]:
        """Numbers by name."""

    @property
    def is_calibrated(self) -> bool:
        """Whether the numbers mean what they should."""

    def connect(self, calibrate: bool = True) -> None:
        """Connect to motors and cameras."""

    def get_observation(self) -> Mapping[str, Any]:
        """Return numbers and pictures."""

    def send_action(self, action: Mapping[str, float]) -> Mapping[str, Any]:
        """Go to positions; return what was really sent."""

    def disconnect(self) -> None:
        """Let go."""


def make_robot(kind: str, fields: Mapping[str, Any]) -> LeRobot:
    """Return LeRobot's object of a type, or of ``module:Class``. Raises ConfigError."""
    if ':' in kind:
        return cast(LeRobot, cast(Any, load_object(kind))(**fields))
    try:
        draccus, tools = (importlib.import_module(name) for name in (
            'draccus', 'lerobot.utils.import_utils'))
        robots, cameras = (importlib.import_module(f'lerobot.{name}')
                           for name in ('robots', 'cameras'))
    except ImportError as error:
        raise ConfigError(f'the backend {LEROBOT}{kind} needs LeRobot where the nodes run: pip '
                          f'install lerobot; {error}') from error
    for package in (robots, cameras):
        for module in pkgutil.iter_modules(package.__path__, f'{package.__name__}.'):
            try:    # a type is known once its module was imported
                importlib.import_module(module.name)
            except ImportError as error:
                log.debug('%s cannot be used: %s', module.name, error)
    tools.register_third_party_plugins()
    known = robots.RobotConfig.get_known_choices()
    if kind not in known:
        raise ConfigError(f"LeRobot knows no robot '{kind}'.{nearest(kind, known)}")
    try:
        config = draccus.decode(robots.RobotConfig, {'type': kind, **fields})
    except Exception as error:    # draccus has errors of several kinds
        raise ConfigError(f'robot: {error}') from error
    return cast(LeRobot, robots.make_robot_from_config(config))


@dataclass(frozen=True)
class RobotReading:
    """One observation: the times (ns) when it was there, and what it holds by name."""

    stamp_ns: int
    steady_ns: int
    values: Mapping[str, Any]


class Sharing(Protocol):
    """A part of a shared robot."""

    def take(self, reading: RobotReading) -> Mapping[str, float]:
        """Make the newest state; return the numbers to send, none while nothing is commanded."""

    def lose(self) -> None:
        """Forget what was commanded: the robot is gone."""


class SharedRobot:
    """LeRobot's object and the thread that alone uses it, while any part is open."""

    _all: dict[tuple[str, Path], 'SharedRobot'] = {}  # noqa: RUF012
    _lock = threading.RLock()

    def __init__(self, kind: str, mapping: LeRobotMapping, clock: Clock) -> None:
        self.problem = ''
        self._kind, self._mapping, self._clock = kind, mapping, clock
        self._parts: tuple[Sharing, ...] = ()
        self._rounds = 0
        self._round = threading.Condition()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._held: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, daemon=True, name=f'lerobot {kind}')

    @classmethod
    def join(cls, kind: str, path: Path, clock: Clock, part: Sharing) -> 'SharedRobot':
        """Return the robot of a type and mapping file, which has ``part`` from now on."""
        with cls._lock:
            key = kind, path.resolve()
            if key not in cls._all:
                cls._all[key] = cls(kind, load(LeRobotMapping, path), clock)
                cls._all[key]._thread.start()
            shared = cls._all[key]
            shared._parts = (*shared._parts, part)
            return shared

    def leave(self, part: Sharing) -> None:
        """Give up a part; with the last one the robot is disconnected."""
        with self._lock:
            self._parts = tuple(other for other in self._parts if other is not part)
            if self._parts:
                return
            self._ended.set()
            self._wake.set()
            self._thread.join(JOIN_S)
            for key in [key for key, shared in self._all.items() if shared is self]:
                del self._all[key]

    def urge(self) -> None:
        """Have the thread send what is due now. DriverError unless it has done so in time."""
        with self._round:
            before = self._rounds
            self._wake.set()
            # The round that runs now may have looked before.
            if not self._round.wait_for(lambda: self._rounds > before + 1, STOP_S):
                raise DriverError('stop did not reach the robot: switch off its power; '
                                  f'{self.problem or "LeRobot does not answer"}')

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        robot: LeRobot | None = None
        period_ns = round(1e9 / self._mapping.rate)
        while not self._ended.is_set():
            due_ns = self._clock.steady_ns() + period_ns
            try:
                if robot is None:
                    robot = self._connected()
                self._exchange(robot)
            except Exception as error:    # whatever LeRobot or a bus raises
                self._lose(error)
                _let_go(robot)
                robot = None
                self._ended.wait(AGAIN_S)
                continue
            self._wake.wait(max(0.0, (due_ns - self._clock.steady_ns()) * 1e-9))
            self._wake.clear()
        _let_go(robot)

    def _connected(self) -> LeRobot:
        """Return a new object, connected: a lost one may not come back. It never asks a person."""
        what = f'{LEROBOT}{self._kind}'
        robot = make_robot(self._kind, self._mapping.robot)
        self._mapping.check(robot, what)
        try:
            robot.connect(calibrate=False)
            if not robot.is_calibrated:
                raise NotConnected(f'{what} is not calibrated: run lerobot-calibrate with its '
                                   "--robot.type and --robot.id, and give the id in the mapping's "
                                   'robot')
        except Exception:
            _let_go(robot)
            raise
        self._held = {}
        return robot

    def _exchange(self, robot: LeRobot) -> None:
        """Read the robot, and send what its parts want; numbers of others stay as they are."""
        values = robot.get_observation()
        reading = RobotReading(self._clock.now_ns(), self._clock.steady_ns(), values)
        self.problem, due = '', dict[str, float]()
        for part in self._parts:
            due |= part.take(reading)
        if due:
            for name in robot.action_features:
                self._held.setdefault(name, float(values[name]))
            self._held |= due
            robot.send_action(dict(self._held))
        with self._round:
            self._rounds += 1
            self._round.notify_all()

    def _lose(self, error: Exception) -> None:
        text = str(error) if isinstance(error, ArenaError) else f'{type(error).__name__}: {error}'
        if not self.problem:
            log.warning('%s%s: %s', LEROBOT, self._kind, text)
        self.problem = text
        for part in self._parts:
            part.lose()


def _let_go(robot: LeRobot | None) -> None:
    try:
        if robot is not None:
            robot.disconnect()
    except Exception as error:    # of a robot that is gone already
        log.debug('LeRobot does not let go: %s', error)
