"""
The scene of a skill task: fixtures and props around the robot, drawn by a seed.

`SkillScene` has the independent check of a task: its goals, whatever a solution claims.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.fixtures import (
    Buttons,
    Drawer,
    HingedDoor,
    HingedLid,
    Knobs,
    Laptop,
    LeverFaucet,
    LeverMachine,
    RailSlider,
    SlidingWindow,
    Switches,
    SwivelDisplay,
    Zone,
)
from arena_robot.drivers.sim.props import Block, Prop
from arena_robot.drivers.sim.station import SimStation
from arena_robot.drivers.sim.tasks.base import (
    ExpertHands,
    Place,
    Setup,
    apart,
    present,
    share,
)
from arena_robot.drivers.sim.truth import SceneLinks, SceneTruth
from arena_robot.skills.base import SkillObject, Solution, TaskSpec
from arena_robot.skills.specs.tasks import (
    JointGoal,
    LiftGoal,
    PlaceGoal,
    PressGoal,
    SkillTask,
    TaskGoal,
)

HALF_CUBE = 0.022
_TRASH = (0.06, 0.055, 0.055)
_ASIDE = 0.33
_COLOURS = ('red', 'green', 'blue', 'yellow', 'orange', 'purple')
Maker = Callable[[str, float, float, float, str], Prop]
STARTED = 0.05      # of a joint's range: how near its start must be to the task's own
UNTOUCHED = 0.25
OVERLAP_M = 0.002   # things that rest on the table sink in by 0.1 mm


def _trash_can(name: str, x: float, y: float, yaw: float, colour: str) -> Prop:
    return HingedLid(name, x, y, yaw, colour, _TRASH)


# By the object's name: how it is made, and x, y (m) and yaw (rad) in the middle of their range.
FIXTURES: dict[str, tuple[Maker, float, float, float]] = {
    'Drawer': (Drawer, 0.68, 0.0, 0.0),
    'Box': (HingedLid, 0.52, 0.0, 0.0),
    'TrashCan': (_trash_can, 0.52, 0.0, 0.0),
    'Laptop': (Laptop, 0.52, 0.0, 0.0),
    'Stove': (Knobs, 0.5, 0.0, 0.0),
    'CoffeeMachine': (LeverMachine, 0.52, 0.0, 0.0),
    'LampPanel': (Switches, 0.52, 0.0, 0.0),
    'Faucet': (LeverFaucet, 0.56, 0.0, 0.0),
    'Dimmer': (RailSlider, 0.5, 0.0, 0.0),
    'Window': (SlidingWindow, 0.52, 0.0, 0.0),
    'Cabinet': (HingedDoor, 0.6, 0.0, 0.0),
    'Dishwasher': (Buttons, 0.5, 0.0, 0.0),
    'Display': (SwivelDisplay, 0.52, 0.0, 0.0),
}
_MARKS = {'LeftMark': 0.2, 'RightMark': -0.2}


def shown_objects(spec: TaskSpec, solution: Solution) -> tuple[SkillObject, ...]:
    """
    Return the objects that a solution's code may name: those of its scene; all when it has none.

    The others stand on the table all the same.
    """
    wanted = solution.scene.get('objects')
    if wanted is None:
        return spec.objects
    if not isinstance(wanted, list | tuple):
        raise ConfigError('the objects of a scene must be a list of names')
    return tuple(item for item in spec.objects if item.name in wanted)


def start_of_joints(spec: TaskSpec, solution: Solution) -> dict[str, float]:
    """Return the start of every joint as a share of its range: the scene's, else the task's."""
    starts = {key: float(at) for key, at in spec.initial.items()}
    joints = solution.scene.get('joints', {})
    if not isinstance(joints, Mapping):
        raise ConfigError('the joints of a scene must be a mapping of object/joint to a number')
    for key, at in joints.items():
        if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= 1:
            raise ConfigError(f"the start of joint '{key}' must be 0 to 1, found {at!r}")
        if key in starts:
            starts[key] = float(at)
    return starts


def scene_setup(spec: TaskSpec, solution: Solution, seed: int) -> Setup:
    """Return props, places and joints; where things stand depends on task and seed alone."""
    rng = np.random.default_rng((seed, 19, *spec.name.encode()))
    colours = rng.permutation(_COLOURS)
    side = 1.0 if rng.random() < 0.5 else -1.0
    props: list[Prop] = []
    places: dict[str, Place] = {}
    for item, colour in zip(spec.objects, colours, strict=False):
        first = item is spec.objects[0]
        shift = rng.uniform(-1.0, 1.0, 3) * (0.025, 0.04, 0.15)
        if item.name == 'Cube':
            x, y = (0.48, 0.0) if first else (0.42, -side * _ASIDE)
            places[item.name] = Place(float(x + shift[0]), float(y + shift[1] / 2), HALF_CUBE,
                                      float(3 * shift[2]))
            prop: Prop = Block(item.name, str(colour))
        elif item.name in _MARKS:
            prop = Zone(item.name, 0.5 + shift[0] / 2, _MARKS[item.name] + shift[1] / 4, 0.0,
                        str(colour), 0.06)
        else:
            prop = _fixture(item.name, first, side, shift, str(colour))
        props.append(prop)
    starts = start_of_joints(spec, solution)
    joints = {f'{item.name}_{joint.name}':
              joint.low + starts[f'{item.name}/{joint.name}'] * (joint.high - joint.low)
              for item in spec.objects for joint in item.joints}
    return Setup(spec.description, tuple(props), places, joints)


def _fixture(name: str, first: bool, side: float, shift: Floats, colour: str) -> Prop:
    if name not in FIXTURES:
        raise ConfigError(f"the station has no object '{name}'; known: {', '.join(FIXTURES)}")
    make, x, y, yaw = FIXTURES[name]
    if not first:       # something that stands by, out of the way
        x, y, yaw = 0.45, side * _ASIDE, np.pi / 2
        shift = shift * (1.0, 0.3, 0.5)
    return make(name, float(x + shift[0]), float(y + shift[1]), float(yaw + shift[2]), colour)


class SkillScene:
    """
    One seed's scene of a skill task, as the simulated station takes it.

    The potential is the mean over the goals of the share of the way from the start to where the
    goal holds: of a joint's range, a distance over the table plane, or a height.
    """

    category = 'skill'

    def __init__(self, task: SkillTask, setup: Setup) -> None:
        self.name = task.spec.name
        self.setup = setup
        self.task = task
        self._pressed: set[str] = set()
        self._starts: dict[str, float] = {}
        self._height: dict[str, float] = {}
        self._way_m: dict[str, float] = {}

    def stage(self, truth: SceneTruth) -> float:
        """Return 0: a skill has no stages."""
        return 0.0

    def potential(self, truth: SceneTruth) -> float:
        """
        Return 0 at reset, 1 when done; the first call, at reset, notes the start.

        It falls when work is undone, but for buttons, and to 0 as another joint moves away by
        half of its range. It stays 0 where the start is not the task's.
        """
        links = SceneLinks(truth.world)
        if not self._starts:
            self._note_start(truth, links)
            return 0.0
        if not self._started():
            return 0.0
        away = max((self._moved(links, key) for key in self.task.untouched), default=0.0)
        ways = [self._way(goal, truth, links) for goal in self.task.goals]
        return present(self.done(truth), sum(ways) / len(ways)
                       * (1.0 - share(away - UNTOUCHED, UNTOUCHED)))

    def _note_start(self, truth: SceneTruth, links: SceneLinks) -> None:
        self._starts = {key: self._share(links, key) for key in self._keys(links)}
        for goal in self.task.goals:
            if isinstance(goal, LiftGoal) and links.has_body(goal.object):
                self._height[goal.object] = float(truth.position(goal.object)[2])
            if isinstance(goal, PlaceGoal) and links.has_body(goal.object):
                self._way_m[goal.target] = apart(truth.position(goal.object),
                                                 truth.position(goal.target))

    def _way(self, goal: TaskGoal, truth: SceneTruth, links: SceneLinks) -> float:
        """Return the share of the way from the start to where a goal holds, 0 to 1."""
        if self._holds(goal, truth, links):
            return 1.0
        if isinstance(goal, JointGoal | PressGoal):
            key = f'{goal.object}/{goal.joint}'
            target = goal.target if isinstance(goal, JointGoal) else 0.0
            left, first = (abs(at - target) - goal.tolerance for at in (
                self._share(links, key), self._starts[key]))
        elif isinstance(goal, LiftGoal):
            left, first = (self._height[goal.object] + goal.height_m
                           - float(truth.position(goal.object)[2]), goal.height_m)
        else:
            left, first = (way_m - goal.distance_m for way_m in (
                apart(truth.position(goal.object), truth.position(goal.target)),
                self._way_m[goal.target]))
        return 1.0 - share(left, first) if first > 0.0 else 0.0

    def watch(self, links: SceneLinks) -> None:
        """Note the buttons that are pressed now; called after every control step."""
        for goal in self.task.goals:
            key = f'{goal.object}/{goal.joint}' if isinstance(goal, PressGoal) else ''
            if key in self._starts and self._share(links, key) <= goal.tolerance:  # type: ignore
                self._pressed.add(key)

    def done(self, truth: SceneTruth) -> bool:
        """Return whether the start was the task's, all goals hold, and nothing else moved."""
        links = SceneLinks(truth.world)
        if not self._started() or any(self._moved(links, key) > UNTOUCHED
                                      for key in self.task.untouched):
            return False
        return all(self._holds(goal, truth, links) for goal in self.task.goals)

    def start_problem(self, station: SimStation) -> str:
        """Return why the task cannot begin, empty when it can; the state is changed."""
        truth, world = station.truth, station.world
        links = SceneLinks(world)
        self.watch(links)
        if all(self._holds(goal, truth, links) for goal in self.task.goals):
            return 'the task is done before anything moves'
        for key, at in self.task.spec.initial.items():
            if abs(self._starts[key] - at) > STARTED:
                return (f"joint '{key}' comes to rest at {self._starts[key]:.2f} of its range, "
                        f'and starts at {at:.2f} in the task')
        for name, value in self.setup.joints.items():
            world.data.qpos[world.joint(name)[0]] = value
        for name, place in self.setup.places.items():
            at, _ = world.joint(name)
            world.data.qpos[at:at + 3] = place.x, place.y, place.z
        world.rebind()
        contact, model = world.data.contact, world.model
        deepest = int(np.argmin(contact.dist)) if len(contact.dist) else -1
        if deepest < 0 or contact.dist[deepest] > -OVERLAP_M:
            return ''
        names = [model.body(model.geom_bodyid[geom]).name for geom in contact.geom[deepest]]
        return f"{' and '.join(names)} overlap by {-contact.dist[deepest] * 1e3:.0f} mm"

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Do nothing: solutions come from policy models."""
        yield from ()

    def _started(self) -> bool:
        return all(abs(self._starts.get(key, -1.0) - at) <= STARTED
                   for key, at in self.task.spec.initial.items())

    def _moved(self, links: SceneLinks, key: str) -> float:
        return abs(self._share(links, key) - self.task.spec.initial[key])

    def _holds(self, goal: TaskGoal, truth: SceneTruth, links: SceneLinks) -> bool:
        if isinstance(goal, JointGoal):
            share = self._share(links, f'{goal.object}/{goal.joint}')
            return abs(share - goal.target) <= goal.tolerance
        if isinstance(goal, PressGoal):
            return f'{goal.object}/{goal.joint}' in self._pressed
        if not links.has_body(goal.object):
            return False
        if isinstance(goal, LiftGoal):
            return bool(truth.position(goal.object)[2]
                        > self._height[goal.object] + goal.height_m)
        return (links.has_body(goal.target) and not truth.grasped(goal.object)
                and apart(truth.position(goal.object),
                          truth.position(goal.target)) <= goal.distance_m)

    def _keys(self, links: SceneLinks) -> list[str]:
        return [key for key in self.task.spec.initial if links.has_joint(key.replace('/', '_'))]

    def _share(self, links: SceneLinks, key: str) -> float:
        motion = links.motion(key.replace('/', '_'))
        return (motion.position - motion.low) / (motion.high - motion.low)
