"""
The rows of the task table: one joint and one way to move it a row, and the other tasks.

Objects have the links, joints and limits of the station's fixtures. A goal is what the oracle of a
task asks for; no policy model is shown it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from arena_robot.skills.base import SkillJoint, SkillLink, SkillObject, TaskSpec

OPEN, SHUT, HALF = (1.0, 0.3), (0.0, 0.12), (0.5, 0.2)
UP, DOWN = (1.0, 0.25), (0.0, 0.15)


@dataclass(frozen=True)
class JointGoal:
    """A joint ends at ``target``, a share of its range, within ``tolerance`` of the range."""

    object: str
    joint: str
    target: float
    tolerance: float


@dataclass(frozen=True)
class PressGoal:
    """A joint was at some time within ``tolerance`` of its range of its lower limit."""

    object: str
    joint: str
    tolerance: float = 0.4


@dataclass(frozen=True)
class PlaceGoal:
    """An object ends, let go, within ``distance_m`` of another one over the table plane."""

    object: str
    target: str
    distance_m: float = 0.06


@dataclass(frozen=True)
class LiftGoal:
    """An object ends at least ``height_m`` above its start."""

    object: str
    height_m: float = 0.08


TaskGoal = JointGoal | PressGoal | PlaceGoal | LiftGoal


@dataclass(frozen=True)
class SkillTask:
    """
    A task with the goals of its oracle.

    All goals must hold, and every joint in ``untouched`` (``object/joint``) must end near its
    start. ``held`` names the link by which a joint is moved, by ``object/joint``. ``grasps``:
    the reference solution grasps it; otherwise it is pushed.
    """

    spec: TaskSpec
    goals: tuple[TaskGoal, ...]
    held: Mapping[str, str] = field(default_factory=dict)
    untouched: tuple[str, ...] = ()
    grasps: bool = True


def _object(name: str, category: str, links: tuple[tuple[str, str, str], ...],
            joints: tuple[tuple[str, str, float, float, str], ...]) -> SkillObject:
    return SkillObject(name, category, tuple(SkillLink(*link) for link in links),
                       tuple(SkillJoint(*joint) for joint in joints))


DRAWER = _object('Drawer', 'StorageFurniture', (
    ('case', '', 'furniture body'), ('tray', 'case', 'drawer'), ('handle', 'tray', 'handle')),
    (('slide', 'slide', 0.0, 0.13, 'tray'),))


BOX = _object('Box', 'Box', (
    ('case', '', 'box body'), ('lid', 'case', 'rotation lid'), ('tab', 'lid', 'handle')),
    (('hinge', 'hinge', 0.0, 1.25, 'lid'),))


TRASHCAN = _object('TrashCan', 'TrashCan', (
    ('bin', '', 'container'), ('lid', 'bin', 'rotation lid'), ('tab', 'lid', 'handle')),
    (('hinge', 'hinge', 0.0, 1.25, 'lid'),))


LAPTOP = _object('Laptop', 'Laptop', (
    ('base', '', 'keyboard'), ('screen', 'base', 'screen'), ('edge', 'screen', 'handle')),
    (('hinge', 'hinge', 0.0, 1.3, 'screen'),))


STOVE = _object('Stove', 'Oven', (
    ('panel', '', 'body'), ('left_knob', 'panel', 'knob'), ('right_knob', 'panel', 'knob')),
    (('left_turn', 'hinge', 0.0, 1.8, 'left_knob'),
     ('right_turn', 'hinge', 0.0, 1.8, 'right_knob')))


COFFEE = _object('CoffeeMachine', 'CoffeeMachine', (
    ('body', '', 'body'), ('arm', 'body', 'lever'), ('grip', 'arm', 'handle')),
    (('lever', 'hinge', 0.0, 1.0, 'arm'),))


LAMPS = _object('LampPanel', 'Switch', (
    ('panel', '', 'body'), ('left_switch', 'panel', 'toggle switch'),
    ('right_switch', 'panel', 'toggle switch')),
    (('left_toggle', 'hinge', 0.0, 0.8, 'left_switch'),
     ('right_toggle', 'hinge', 0.0, 0.8, 'right_switch')))


FAUCET = _object('Faucet', 'Faucet', (
    ('base', '', 'body'), ('handle', 'base', 'switch'), ('spout', 'base', 'spout')),
    (('valve', 'hinge', 0.0, 1.4, 'handle'), ('swivel', 'hinge', -0.8, 0.8, 'spout')))


DIMMER = _object('Dimmer', 'Slider', (
    ('rail', '', 'body'), ('tab', 'rail', 'slider')),
    (('slide', 'slide', 0.0, 0.14, 'tab'),))


WINDOW = _object('Window', 'Window', (
    ('frame', '', 'frame'), ('pane', 'frame', 'sliding window'), ('handle', 'pane', 'handle')),
    (('slide', 'slide', 0.0, 0.15, 'pane'),))


CABINET = _object('Cabinet', 'Door', (
    ('case', '', 'furniture body'), ('door', 'case', 'rotation door'),
    ('handle', 'door', 'handle')),
    (('hinge', 'hinge', 0.0, math.radians(75.0), 'door'),))


DISHWASHER = _object('Dishwasher', 'Dishwasher', (
    ('panel', '', 'body'), ('start_button', 'panel', 'button'),
    ('stop_button', 'panel', 'button')),
    (('start', 'slide', -0.008, 0.0, 'start_button'),
     ('stop', 'slide', -0.008, 0.0, 'stop_button')))


DISPLAY = _object('Display', 'Display', (
    ('stand', '', 'stand'), ('screen', 'stand', 'screen'), ('edge', 'screen', 'handle')),
    (('turn', 'hinge', -0.9, 0.9, 'screen'),))


CUBE = _object('Cube', 'Block', (('body', '', 'solid'),), ())


LEFT_MARK = _object('LeftMark', 'Mark', (('area', '', 'square of tape on the left'),), ())


RIGHT_MARK = _object('RightMark', 'Mark', (('area', '', 'square of tape on the right'),), ())


@dataclass(frozen=True)
class JointRow:
    """
    A task of one joint.

    ``start`` and ``goal`` (target, tolerance) are shares of the joint's range; ``pushed``: the
    reference solution pushes the link instead of grasping it.
    """

    family: str
    thing: SkillObject
    joint: str
    link: str
    name: str
    description: str
    start: float
    goal: tuple[float, float]
    pushed: bool = False


def _row(thing: tuple[str, SkillObject, str, str], name: str, description: str, start: float,
         goal: tuple[float, float], pushed: bool = False) -> JointRow:
    return JointRow(*thing, name, description, start, goal, pushed)


_DRAWER = ('drawer', DRAWER, 'slide', 'handle')
_BOX = ('box', BOX, 'hinge', 'tab')
_TRASH = ('trashcan', TRASHCAN, 'hinge', 'tab')
_LAPTOP = ('laptop', LAPTOP, 'hinge', 'edge')
_DOOR = ('door', CABINET, 'hinge', 'handle')
_WINDOW = ('window', WINDOW, 'slide', 'handle')
_LEFT_KNOB = ('knob', STOVE, 'left_turn', 'left_knob')
_RIGHT_KNOB = ('knob', STOVE, 'right_turn', 'right_knob')
_LEFT_LAMP = ('switch', LAMPS, 'left_toggle', 'left_switch')
_RIGHT_LAMP = ('switch', LAMPS, 'right_toggle', 'right_switch')
_LEVER = ('lever', COFFEE, 'lever', 'grip')
_VALVE = ('faucet', FAUCET, 'valve', 'handle')
_SPOUT = ('faucet', FAUCET, 'swivel', 'spout')
_DIMMER = ('slider', DIMMER, 'slide', 'tab')
_DISPLAY = ('display', DISPLAY, 'turn', 'edge')

OPENING = (
    _row(_DRAWER, 'Open Drawer', 'The robot arm pulls the drawer out by its handle', 0.0, OPEN),
    _row(_DRAWER, 'Close Drawer', 'The robot arm pushes the open drawer in until it is shut',
         0.9, SHUT, pushed=True),
    _row(_DRAWER, 'Open Drawer Halfway', 'The robot arm pulls the drawer out half of its way and '
         'stops there', 0.0, HALF),
    _row(_BOX, 'Open Box Lid', 'The robot arm lifts the lid of the box to open it', 0.0, OPEN),
    _row(_BOX, 'Close Box Lid', 'The robot arm brings the open lid down to close the box', 0.9,
         SHUT, pushed=True),
    _row(_BOX, 'Open Partial Box Lid', 'The robot arm opens the lid of the box only half way',
         0.0, HALF),
    _row(_TRASH, 'Open Trash Can Lid', 'The robot arm raises the lid so that trash can be thrown '
         'into the can', 0.0, OPEN),
    _row(_TRASH, 'Close Trash Can Lid', 'The robot arm lowers the lid until the trash can is '
         'closed', 0.9, SHUT, pushed=True),
    _row(_TRASH, 'Tilt Trash Can Lid', 'The robot arm raises the lid of the trash can to the '
         'middle of its range', 0.0, HALF),
    _row(_LAPTOP, 'Open Laptop Screen', 'The robot arm lifts the screen to open the laptop', 0.0,
         OPEN),
    _row(_LAPTOP, 'Close Laptop Screen', 'The robot arm folds the screen down onto the keyboard',
         0.9, SHUT, pushed=True),
    _row(_LAPTOP, 'Adjust Laptop Screen Angle', 'The robot arm lifts the screen of the closed '
         'laptop to about half of its range', 0.0, HALF),
    _row(_DOOR, 'Open Door', 'The robot arm swings the door of the cabinet open by its handle',
         0.0, OPEN),
    _row(_DOOR, 'Close Door', 'The robot arm swings the open door of the cabinet shut', 0.9,
         SHUT),
    _row(_DOOR, 'Move Door Slightly Open', 'The robot arm moves the closed door to half of its '
         'range and stops', 0.0, HALF),
    _row(_WINDOW, 'Open Window', 'The robot arm slides the window open to its end', 0.0, OPEN),
    _row(_WINDOW, 'Close Window', 'The robot arm slides the open window shut', 0.9, SHUT),
    _row(_WINDOW, 'Open Window Halfway', 'The robot arm slides the window open half way and '
         'then stops', 0.0, HALF),
)
SETTING = (
    _row(_LEFT_KNOB, 'Turn Up Left Knob', 'The robot arm turns the left knob of the stove up to '
         'its highest setting', 0.0, UP),
    _row(_LEFT_KNOB, 'Turn Down Left Knob', 'The robot arm turns the left knob of the stove down '
         'to zero', 0.9, DOWN),
    _row(_RIGHT_KNOB, 'Turn Up Right Knob', 'The robot arm turns the right knob of the stove up '
         'to its highest setting', 0.0, UP),
    _row(_RIGHT_KNOB, 'Turn Down Right Knob', 'The robot arm turns the right knob of the stove '
         'down to zero', 0.9, DOWN),
    _row(_LEFT_LAMP, 'Turn On Left Lamp', 'The robot arm tips the left switch to its on '
         'position', 0.0, UP, pushed=True),
    _row(_LEFT_LAMP, 'Turn Off Left Lamp', 'The robot arm tips the left switch to its off '
         'position', 1.0, DOWN, pushed=True),
    _row(_RIGHT_LAMP, 'Turn On Right Lamp', 'The robot arm tips the right switch to its on '
         'position', 0.0, UP, pushed=True),
    _row(_RIGHT_LAMP, 'Turn Off Right Lamp', 'The robot arm tips the right switch to its off '
         'position', 1.0, DOWN, pushed=True),
    _row(_LEVER, 'Pull Lever to Start Coffee Brewing', 'The robot arm pulls the lever of the '
         'coffee machine towards itself to its end', 0.0, UP),
    _row(_LEVER, 'Push Lever to Stop Coffee Brewing', 'The robot arm pushes the lever of the '
         'coffee machine away from itself, back to its start', 0.9, DOWN),
    _row(_LEVER, 'Set Lever to Middle', 'The robot arm pulls the lever of the coffee machine to '
         'the middle of its range', 0.0, HALF),
    _row(_VALVE, 'Turn On Water Faucet', 'The robot arm turns the handle of the faucet to let '
         'the water flow', 0.0, UP),
    _row(_VALVE, 'Turn Off Water Faucet', 'The robot arm turns the handle of the faucet back to '
         'stop the water', 0.9, DOWN),
    _row(_SPOUT, 'Turn Faucet Spout Left', 'The robot arm swivels the spout of the faucet to its '
         'left end', 0.4, UP, pushed=True),
    _row(_SPOUT, 'Turn Faucet Spout Right', 'The robot arm swivels the spout of the faucet to '
         'its right end', 0.6, DOWN, pushed=True),
    _row(_DIMMER, 'Slide Dimmer Left', 'The robot arm moves the slider of the dimmer to its left '
         'end', 0.1, UP),
    _row(_DIMMER, 'Slide Dimmer Right', 'The robot arm moves the slider of the dimmer to its '
         'right end', 0.9, DOWN),
    _row(_DIMMER, 'Center Dimmer', 'The robot arm moves the slider of the dimmer from its right '
         'end to the middle', 0.0, HALF),
    _row(_DISPLAY, 'Rotate Display Left', 'The robot arm turns the display on its stand to its '
         'left end', 0.4, UP),
    _row(_DISPLAY, 'Rotate Display Right', 'The robot arm turns the display on its stand to its '
         'right end', 0.6, DOWN),
    _row(_DISPLAY, 'Center Display', 'The robot arm turns the display from its right end to the '
         'middle', 0.0, HALF),
)
