"""
Episodes of the simulated station with the known progress of every frame.

Scripts do a task of the station well or badly, for judges to learn from:

========  ======================================================================================
expert    as the scripted expert does it
detour    the same with needless ways and waits
stop      gives up somewhere
drop      lets go on the way, sometimes tries again
wrong     takes another object, or reaches beside it; sometimes then the right one
noisy     misses by some centimetres
undo      does it, then takes the thing away again
random    moves about
home      does it, then opens the gripper and goes back to the start pose
placed    keeps still while the objects jump to where the expert would leave them
back      does it, then keeps still while the objects jump back to their start
open      makes the expert's motions, but never closes the gripper
high      makes the expert's motions 7 cm too high
empty     makes the expert's motions 7 cm too high and beside everything
posed     stills: the objects of one instant of an episode, the arm of another
========  ======================================================================================
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.episode import MAX_STEPS
from arena_robot.core.errors import DriverError
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import ROLES, Floats
from arena_robot.drivers.sim.expert import PERIOD_S, ExpertMotions
from arena_robot.drivers.sim.gripper_model import FINGERS
from arena_robot.drivers.sim.station import SavedState, SimStation
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.drivers.sim.tasks.base import Task
from arena_robot.drivers.sim.tasks.fixed import CloseDrawer, OpenDrawer
from arena_robot.drivers.sim.tasks.move import SlideBook
from arena_robot.drivers.sim.truth import SceneTruth
from arena_robot.records.clip import SUFFIX, ClipSource, LabelledClip, write_clip

# Of the last six scripts only `home` and `placed` end well: the arm says nothing of the objects.
SCRIPTS = ('expert', 'stop', 'drop', 'wrong', 'undo', 'noisy', 'random', 'detour',
           'home', 'placed', 'back', 'open', 'high', 'empty')
POSED = 'posed'
KINDS = (*SCRIPTS, POSED)
STILLS = 40                  # of a posed episode, as many frames as a short script has
STILL_STEPS = 5              # steps between the instants that stills are made of: 0.33 s
# Tasks whose progress depends on what was before: no still shows it.
PAST = ('press_button', 'do_not_move')
_OTHERS = ('drop', 'wrong', 'noisy', 'undo', 'random')
HIGH_M = 0.07                # over a cube of 4.4 cm the pads touch nothing
ASIDE_M = (0.12, 0.16)       # beside every prop of a hand's width
_DETOURS = {'detour': 0.6, 'drop': 0.1, 'noisy': 0.1}
_FIXED = ('bowl', 'plate', 'towel')
_APART_M = 0.1               # of scattered props: a bowl's radius and half a cube
_X, _Y, _Z = (0.35, 0.62), (-0.28, 0.28), (0.18, 0.38)


class FaultyExpert(ExpertMotions):
    """The expert's motions, with a detour before one in ``detours`` of them."""

    def __init__(self, station: SimStation, rng: np.random.Generator, detours: float) -> None:
        super().__init__(station)
        self.rng, self.detours = rng, detours
        self.home, self.shift, self.closes = self._at.copy(), np.zeros(3), True

    def go(self, x: float, y: float, z: float, yaw: float | None = None,
           pitch: float = 0.0) -> Iterator[None]:
        """Move straight to a position, or by way of another one."""
        if self.rng.random() < self.detours:
            yield from super().go(*self.somewhere(_Z))
            if self.rng.random() < 0.3:
                yield from self.wait(self.rng.uniform(0.5, 2.0))
        dx, dy, dz = (float(by) for by in self.shift)
        yield from super().go(x + dx, y + dy, z + dz, yaw, pitch)

    def grip(self, position: float, force: float = 0.0) -> Iterator[None]:
        """Open or close the gripper; one that never ``closes`` opens."""
        yield from super().grip(position if self.closes else 0.0, force)

    def somewhere(self, heights: tuple[float, float]) -> tuple[float, float, float]:
        """Return a random point over the table."""
        x, y, z = (float(self.rng.uniform(*span)) for span in (_X, _Y, heights))
        return x, y, z

    def rise(self, by: float, at_least: float) -> Iterator[None]:
        """Open the gripper and go up."""
        yield from self.grip(0.0)
        x, y, z = self._at
        yield from self.go(float(x), float(y), max(float(z) + by, at_least))

    def wander(self, points: int) -> Iterator[None]:
        """Open, close and move about."""
        for _ in range(points):
            yield from self.grip(float(self.rng.integers(2)))
            yield from self.go(*self.somewhere((0.05, 0.3)), float(self.rng.uniform(-1.2, 1.2)))

    @property
    def closed(self) -> bool:
        """Whether the gripper was told to close."""
        return self._closed > 0.6


class _Misled(SceneTruth):
    """The scene with objects taken for others, or seen beside where they are."""

    def __init__(self, truth: SceneTruth, swapped: Mapping[str, str],
                 offsets: Mapping[str, Floats], other: Floats) -> None:
        super().__init__(truth.world)
        self._swapped, self._offsets, self._other = swapped, offsets, other

    def position(self, name: str) -> Floats:
        name = self._swapped.get(name, name)
        at = super().position(name)
        at[:2] += self._offsets.get(name, self._other)
        return at

    def yaw(self, name: str) -> float:
        return super().yaw(self._swapped.get(name, name))


def script(station: SimStation, kind: str, seed: int) -> Iterator[None]:
    """Yield once per control step while a task is done in a way; see :data:`SCRIPTS`."""
    task = station.task
    rng = np.random.default_rng((seed, SCRIPTS.index(kind), 17))
    hands = FaultyExpert(station, rng, _DETOURS.get(kind, 0.0))
    if kind in ('expert', 'detour'):
        yield from task.solve(hands)
        yield from hands.wait(0.6)
    elif kind == 'stop':
        yield from _stopped(task, hands, int(rng.uniform(8, 85)))
    elif kind == 'drop':
        yield from _dropped(task, hands, int(rng.uniform(25, 90)))
    elif kind in ('wrong', 'noisy'):
        yield from _missed(task, hands, kind)
    elif kind == 'undo':
        yield from task.solve(hands)
        yield from hands.wait(0.4)
        yield from hands.rise(0.05, 0.3)
        yield from _undone(task, hands)
        yield from hands.wait(0.5)
    elif kind in ('home', 'placed', 'back'):
        yield from _apart(station, hands, kind)
    elif kind in ('open', 'high', 'empty'):
        hands.closes, hands.shift[2] = kind != 'open', 0.0 if kind == 'open' else HIGH_M
        if kind == 'empty':
            turn = rng.uniform(-np.pi, np.pi)
            hands.shift[:2] = rng.uniform(*ASIDE_M) * np.array([np.cos(turn), np.sin(turn)])
        yield from task.solve(hands)
        yield from hands.wait(0.6)
    else:
        yield from hands.wander(int(rng.integers(4, 8)))


def _apart(station: SimStation, hands: FaultyExpert, kind: str) -> Iterator[None]:
    """Let the arm's end and the objects' end disagree."""
    first = _objects(station)
    if kind == 'placed':
        start = station.save()
        for _ in station.task.solve(hands):
            station.step(PERIOD_S)
        last = _objects(station)
        station.restore(start)
        hands = FaultyExpert(station, hands.rng, 0.0)
        yield from hands.wait(1.0)
        _put(station, last)
        yield from hands.wait(2.0)
        return
    yield from station.task.solve(hands)
    if kind == 'home':
        yield from hands.rise(0.08, 0.25)
        yield from hands.go(*(float(x) for x in hands.home))
    else:
        _put(station, first)
    yield from hands.wait(1.5)


def _objects(station: SimStation) -> Floats:
    """Return the state of all joints that are not the robot's, NaN for the robot's own."""
    world = station.world
    with world.ticked:
        objects: Floats = world.data.qpos.copy()
        objects[world.arm.impedance.qpos] = np.nan
        objects[[world.joint(name)[0] for name in world.gripper.fingers.joints]] = np.nan
        return objects


def _put(station: SimStation, objects: Floats) -> None:
    world = station.world
    with world.ticked:
        others = np.isfinite(objects)
        world.data.qpos[others] = objects[others]
        world.data.qvel[:] = 0.0
        world.rebind()


def stills(station: SimStation, seed: int) -> Iterator[None]:
    """
    Yield once per picture: objects and arm of different instants, a few objects elsewhere.

    Only objects that the fingers do not touch are shown with another arm. The potential is that
    of what the picture shows.
    """
    rng = np.random.default_rng((seed, 19))
    start, instants = station.save(), []
    for kind in ('expert', str(rng.choice(_OTHERS))):
        station.restore(start)
        try:
            for step, _ in enumerate(script(station, kind, seed)):
                station.step(PERIOD_S)
                if step % STILL_STEPS == 0:
                    instants.append(_instant(station))
        except DriverError as error:
            log.info('%s of seed %d ended early: %s', kind, seed, error)
        instants.append(_instant(station))
    loose = [i for i in instants if i.loose]
    done = [i for i in loose if i.phi >= 1.0] or loose
    station.restore(start)
    yield
    for _ in range(STILLS - 1):
        objects, arm = (rows[int(rng.integers(len(rows)))]
                        for rows in (done if rng.random() < 0.4 else loose, instants))
        if rng.random() < 0.25:
            objects = arm    # as it was: things are held only here
        station.restore(objects.state)
        robot = np.isnan(_objects(station))
        with station.world.ticked:
            station.world.data.qpos[robot] = arm.state.physics.qpos[robot]
            if objects is not arm and rng.random() < 0.35:
                _scatter(station, rng)
            station.world.data.qvel[:] = 0.0
            station.world.rebind()
        yield


@dataclass(frozen=True)
class _Instant:
    """A state of the station, its progress, and whether the fingers touch none of the props."""

    state: SavedState
    phi: float
    loose: bool


def _instant(station: SimStation) -> _Instant:
    touched = {name for finger in FINGERS for name in station.truth.touching(finger)}
    return _Instant(station.save(), station.potential(),
                    not touched & set(station.task.setup.places))


def _scatter(station: SimStation, rng: np.random.Generator) -> None:
    """Put some props elsewhere on the table, apart from the others."""
    world, places = station.world, station.task.setup.places
    for name in places:
        x, y = float(rng.uniform(*_X)), float(rng.uniform(*_Y))
        if rng.random() < 0.5 and all(np.hypot(*(station.truth.position(other)[:2] - (x, y)))
                                      > _APART_M for other in places if other != name):
            at = world.joint(name)[0]
            world.data.qpos[at:at + 3] = x, y, places[name].z


def _stopped(task: Task, hands: FaultyExpert, after: int) -> Iterator[None]:
    for step, _ in enumerate(task.solve(hands)):
        yield
        if step >= after:
            break
    yield from hands.wait(hands.rng.uniform(1.5, 4.0))


def _dropped(task: Task, hands: FaultyExpert, after: int) -> Iterator[None]:
    for step, _ in enumerate(task.solve(hands)):
        yield
        if step >= after and hands.closed:
            break
    yield from hands.rise(0.08, 0.2)
    if hands.rng.random() < 0.6:
        yield from task.solve(hands)
    yield from hands.wait(1.0)


def _missed(task: Task, hands: FaultyExpert, kind: str) -> Iterator[None]:
    seen, names, rng = hands.truth, sorted(task.setup.places), hands.rng
    swapped: dict[str, str] = {}
    if kind == 'wrong' and len(names) > 1 and not task.setup.joints:
        shift = int(rng.integers(1, len(names)))
        swapped = dict(zip(names, names[shift:] + names[:shift], strict=True))
    spread = 0.0 if swapped else 0.085 if kind == 'wrong' else 0.025
    hands.truth = _Misled(seen, swapped, {name: rng.normal(0, spread, 2) for name in names},
                          rng.normal(0, spread, 2))
    yield from task.solve(hands)
    hands.truth = seen
    if rng.random() < 0.4:
        yield from hands.rise(0.05, 0.25)
        yield from task.solve(hands)
    yield from hands.wait(0.6)


def _undone(task: Task, hands: FaultyExpert) -> Iterator[None]:
    if isinstance(task, OpenDrawer):
        shut = CloseDrawer(np.random.default_rng(0))
        shut.drawer, shut.start = task.drawer, hands.truth.joint('drawer_slide')
        yield from shut.solve(hands)
    elif isinstance(task, CloseDrawer):
        pull: Any = OpenDrawer(np.random.default_rng(0))
        pull.drawer = task.drawer
        yield from pull.solve(hands)
    elif isinstance(task, SlideBook):
        yield from _pushed_back(task, hands)
    else:
        yield from _taken_away(task, hands)


def _pushed_back(task: SlideBook, hands: FaultyExpert) -> Iterator[None]:
    book = hands.truth.position('book')[:2]
    ahead = np.array([np.cos(task.heading), np.sin(task.heading)])
    yaw = task.heading + np.pi if task.heading < 0 else task.heading
    front, end = book + 0.095 * ahead, book - 0.09 * ahead
    yield from hands.grip(0.4)
    for x, y, z in ((*front, 0.12), (*front, 0.022), (*end, 0.022), (*end, 0.2)):
        yield from hands.go(float(x), float(y), z, yaw)


def _taken_away(task: Task, hands: FaultyExpert) -> Iterator[None]:
    movable = [name for name in task.setup.places
               if name not in _FIXED and not name.endswith('_tray')]
    target = {'sort_cubes': 0, 'stack_blocks': 0}.get(task.name)
    words = task.setup.instruction.split()
    named = [name for name in movable if name.removesuffix('_cube') in words]
    name = (named or movable)[0] if target is None else movable[target]
    if task.name in ('press_button', 'close_box', 'wipe_table', 'knock_over', 'do_not_move'):
        yield from hands.wander(3)
        return
    height = {'cup_on_plate': 0.06, 'find_cube': -0.03}.get(task.name, 0.0) if name == 'cup' \
        else 0.0
    yield from hands.pick(name, height)
    x, y = float(hands.rng.uniform(0.4, 0.6)), float(hands.rng.uniform(-0.25, 0.25))
    yield from hands.place(x, y, 0.05 + max(height, 0.0))


log = logging.getLogger(__name__)

SIZE = (320, 180)    # as a station records
EVERY = 3            # steps: a frame every 0.2 s, the local judge's interval
QUALITY = 88         # of JPEGs: hundreds of episodes are kept


@dataclass(frozen=True)
class LabelledEpisode:
    """One episode to make: a task's seed, done in one of the ways of ``KINDS``."""

    task: str
    seed: int
    kind: str

    @property
    def name(self) -> str:
        """Name of the episode, unique among all."""
        return f'{self.task}-{self.seed:04d}-{self.kind}'


def labelled_episodes(tasks: Sequence[str], seeds: Sequence[int]) -> list[LabelledEpisode]:
    """Return a script and stills per task and seed; the scripts are spread evenly over both."""
    return [LabelledEpisode(task, seed, kind) for seed in seeds
            for number, task in enumerate(tasks)
            for kind in (SCRIPTS[(seed + 3 * number) % len(SCRIPTS)], POSED)
            if kind != POSED or task not in PAST]


def all_tasks() -> list[str]:
    """Return the names of the package's own tasks."""
    return list(TASKS.built_in)


def record(episode: LabelledEpisode, station: SimStation | None = None) -> LabelledClip:
    """Run an episode, on a new station when none is given, with a frame every 0.2 s."""
    if station is None:
        with SimStation.make(episode.task, episode.seed, size=SIZE, rate_hz=5.0,
                             eyes=('left',)) as made:
            return record(episode, made)
    station.reset(episode.task, episode.seed)
    phi: list[float] = []
    pictures: dict[str, list[bytes]] = {role: [] for role in ROLES}

    def look() -> None:
        phi.append(station.potential())
        for role in ROLES:
            pictures[role].append(to_jpeg(station.cameras[role].frame(5.0).left.pixels, QUALITY))

    try:
        if episode.kind == POSED:
            for _ in stills(station, episode.seed):
                look()
        else:
            look()
            for step, _ in enumerate(script(station, episode.kind, episode.seed), 1):
                station.step(PERIOD_S)
                if step % EVERY == 0:
                    look()
                if step >= MAX_STEPS:
                    break
    except DriverError as error:
        log.info('%s ended early: %s', episode.name, error)
    times_s = np.arange(len(phi), dtype=np.float64) * (EVERY * PERIOD_S)
    return LabelledClip(
        ClipSource(episode.name, station.instruction, episode.task, episode.seed,
                   episode.kind, bool(station.succeeded())), times_s, np.array(phi), pictures)


def record_to(folder: Path, episode: LabelledEpisode) -> Path:
    """Run an episode and write its clip into ``folder``, unless it is there already."""
    path = folder / f'{episode.name}{SUFFIX}'
    if not path.exists():
        write_clip(path, record(episode))
    return path
