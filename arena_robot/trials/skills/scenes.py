"""The scene of a skill task: fixtures and props around the robot, drawn by a seed."""

from collections.abc import Callable, Mapping

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.fixtures import (
    Drawer,
    HingedDoor,
    HingedLid,
    Laptop,
    SwivelDisplay,
    Zone,
)
from arena_robot.drivers.sim.panel_fixtures import (
    Buttons,
    Knobs,
    LeverFaucet,
    LeverMachine,
    RailSlider,
    SlidingWindow,
    Switches,
)
from arena_robot.drivers.sim.props import Block, Prop
from arena_robot.drivers.sim.tasks.base import Place, Setup
from arena_robot.skills.base import SkillObject, Solution, TaskSpec

HALF_CUBE = 0.022
_TRASH = (0.06, 0.055, 0.055)
_ASIDE = 0.33
_COLOURS = ('red', 'green', 'blue', 'yellow', 'orange', 'purple')
Maker = Callable[[str, float, float, float, str], Prop]


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
    return tuple(one for one in spec.objects if one.name in wanted)


def start_of_joints(spec: TaskSpec, solution: Solution) -> dict[str, float]:
    """Return the start of every joint as a share of its range: the scene's, else the task's."""
    found = {key: float(share) for key, share in spec.initial.items()}
    given = solution.scene.get('joints', {})
    if not isinstance(given, Mapping):
        raise ConfigError('the joints of a scene must be a mapping of object/joint to a number')
    for key, share in given.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"the start of joint '{key}' must be 0 to 1, found {share!r}")
        if key in found:
            found[key] = float(share)
    return found


def scene_setup(spec: TaskSpec, solution: Solution, seed: int) -> Setup:
    """Return props, places and joints; where things stand depends on task and seed alone."""
    rng = np.random.default_rng((seed, 19, *spec.name.encode()))
    colours = rng.permutation(_COLOURS)
    side = 1.0 if rng.random() < 0.5 else -1.0
    props: list[Prop] = []
    places: dict[str, Place] = {}
    for thing, colour in zip(spec.objects, colours, strict=False):
        first = thing is spec.objects[0]
        shift = rng.uniform(-1.0, 1.0, 3) * (0.025, 0.04, 0.15)
        if thing.name == 'Cube':
            x, y = (0.48, 0.0) if first else (0.42, -side * _ASIDE)
            places[thing.name] = Place(float(x + shift[0]), float(y + shift[1] / 2), HALF_CUBE,
                                       float(3 * shift[2]))
            prop: Prop = Block(thing.name, str(colour))
        elif thing.name in _MARKS:
            prop = Zone(thing.name, 0.5 + shift[0] / 2, _MARKS[thing.name] + shift[1] / 4, 0.0,
                        str(colour), 0.06)
        else:
            prop = _fixture(thing.name, first, side, shift, str(colour))
        props.append(prop)
    starts = start_of_joints(spec, solution)
    joints = {f'{thing.name}_{joint.name}':
              joint.low + starts[f'{thing.name}/{joint.name}'] * (joint.high - joint.low)
              for thing in spec.objects for joint in thing.joints}
    return Setup(spec.description, tuple(props), places, joints)


def _fixture(name: str, first: bool, side: float, shift: Floats, colour: str) -> Prop:
    if name not in FIXTURES:
        raise ConfigError(f"the station has no object '{name}'; known: {', '.join(FIXTURES)}")
    make, x, y, yaw = FIXTURES[name]
    if not first:       # something that stands by, out of the way
        x, y, yaw = 0.45, side * _ASIDE, np.pi / 2
        shift = shift * (1.0, 0.3, 0.5)
    return make(name, float(x + shift[0]), float(y + shift[1]), float(yaw + shift[2]), colour)
