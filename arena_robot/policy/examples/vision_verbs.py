"""
The actions for each verb, and the steps of every job; an unsuccessful job is repeated.

A job is: look over the table, approach, look again, grasp, check, carry, release. A
:class:`Worker` can be given faults; they make the weaker policies of the examples.
"""

import math
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.policy.examples import vision_sight as sight
from arena_robot.policy.examples.vision_hands import PAD_M, Steps, VisionHands, WristEye, downward
from arena_robot.policy.examples.vision_sight import (
    BOTTLE,
    COLOURS,
    CUBE,
    CUP,
    CUP_DOWN,
    Labels,
    Sighting,
    height_of,
    labelled,
)

COLOUR_WORDS = ('red', 'green', 'blue', 'yellow', 'orange', 'purple', 'white', 'black', 'pink')
_NOUNS = {
    'cube': 'cube', 'block': 'cube', 'cup': 'cup', 'mug': 'cup', 'bowl': 'bowl', 'plate': 'plate',
    'tray': 'tray', 'button': 'button', 'bottle': 'bottle',
}
_STILL = re.compile(r"\b(do not move|don't move|stay still|do nothing|hold still|wait)\b")
_VERBS = (
    ('shut', r'\b(close|push|shut) (the )?drawer\b'),
    ('press', r'\b(press|push the (\w+ )?button)\b'),
    ('topple', r'\b(knock|tip|topple|falls?)\b'),
    ('sort', r'\bsort\b'),
    ('find', r'\b(find|uncover|show)\b'),
    ('stack', r'\b(stack|on top of)\b'),
    ('put', r'\b(put|place|set|move|drop)\b'),
    ('lift', r'\b(pick up|lift|grab|raise|pick)\b'),
)


@dataclass(frozen=True)
class Thing:
    """An object that the prompt names; ``colour`` is empty without one."""

    noun: str
    colour: str = ''


@dataclass(frozen=True)
class Goal:
    """What to do: ``verb`` is '' when the prompt was not understood; things in their order."""

    verb: str
    things: tuple[Thing, ...] = ()


def understood(prompt: str) -> Goal:
    """Return the goal of ``prompt``."""
    text = ' '.join(re.findall(r"[a-z']+", prompt.lower()))
    if _STILL.search(text):
        return Goal('stay')
    verb = next((name for name, pattern in _VERBS if re.search(pattern, text)), '')
    return Goal(verb, _things(text))


def _things(text: str) -> tuple[Thing, ...]:
    things, colour = [], ''
    for word in text.split():
        noun = _NOUNS.get(word) or _NOUNS.get(word.removesuffix('s'))
        if word in COLOUR_WORDS:
            colour = word
        elif noun:
            things.append(Thing(noun, colour))
            colour = ''
    return tuple(things)


BOWL = (0.078, 0.048)            # radius and height of the rim, m
PLATE = (0.095, 0.0155)
PLATE_M = 0.006                  # what stands on a plate stands this high
CUP_GRASP_M = 0.06
CUP_DOWN_GRASP_M = 0.052
ASIDE_M = 0.13
NECK_M = 0.135
PRESSED_M = 0.014                # where the pads would be if the button did not resist
ABOVE_BUTTON_M = 0.14
HANDLE_M = (0.048, 0.062)        # of a drawer: in front of its panel, and height
PUSH_M = 0.135
LOOK_PITCH = 0.42
LOOK_M = ((0.32, 0.0, 0.54), (0.30, 0.13, 0.54), (0.30, -0.13, 0.54))   # of the flange
HOVER_M = 0.125
LIFT_M = 0.18
FINGER_M = 0.05        # from the middle of the open gripper to a finger
EMPTY = 0.85           # the gripper closed further than this holds nothing
SURE = 0.55
_MOST_TILT = 0.06
SAME_M = 0.05          # what two looks see less than this apart is one thing
RAISED_M = (0.025, 0.12)   # standing on something else
Task = Generator[None, None, bool]
Again = Callable[[float], list[Sighting]]
"""Looks again for a thing that stands at a height (m) above the table."""


@dataclass(frozen=True)
class Traits:
    """
    Faults of a worker; the defaults are without faults.

    ``haste`` scales the speed; ``noise_m`` is the standard deviation of object positions;
    ``drops`` and ``confuses`` are probabilities per carry and per choice of a thing.
    """

    haste: float = 1.0
    noise_m: float = 0.0
    drops: float = 0.0
    confuses: float = 0.0


class Worker:
    """One episode's ``goal`` and ``hands``; ``random`` is what the faults draw from."""

    def __init__(self, hands: VisionHands, goal: Goal, traits: Traits,
                 random: np.random.Generator) -> None:
        self.hands, self.goal = hands, goal
        self._traits, self._random = traits, random
        self._looks = 0
        self.labels: Labels = np.zeros((1, 1), np.uint8)

    # -- seeing ----------------------------------------------------------------------------

    @property
    def eye(self) -> WristEye:
        """The eye that took the newest picture."""
        return self.hands.eye()

    def look_over(self) -> Steps:
        """
        Open the gripper, look at the whole table from above, estimate the camera's tilt.

        Every other time from another side, because the fingers hide a part of the table.
        """
        hands = self.hands
        flange = np.array(LOOK_M[self._looks % len(LOOK_M)])
        self._looks += 1
        hands.closed = 0.0
        yield from hands.go(flange + PAD_M * downward(0.0, LOOK_PITCH)[:, 2], 0.0, LOOK_PITCH, 1.5)
        yield from hands.look()
        tilt = sight.tilt_error(hands.picture(), 1.0 - hands.grip)
        if tilt is not None and abs(tilt) < _MOST_TILT:
            hands.tilt_error = tilt
        self.labels = labelled(hands.picture())

    def best(self, sightings: list[Sighting], least: float = 0.3) -> Sighting | None:
        """Return the first of ``sightings``, if it is sure enough."""
        return sightings[0] if sightings and sightings[0].sure > least else None

    def cube(self, colour: str, base: float = 0.0) -> Sighting | None:
        """Return the block of a colour in the newest picture."""
        return self.best(sight.cubes(self.labels, self.eye, colour, base))

    def blurred(self, sighting: Sighting) -> Sighting:
        """Return an object with this worker's position error."""
        noise = self._random.normal(0.0, 1.0, 2) * self._traits.noise_m
        return replace(sighting, position=sighting.position + np.array([*noise, 0.0]))

    def wanted(self, colour: str, seen: list[Sighting]) -> str:
        """Return the colour to take; a confused worker may choose another visible one."""
        others = sorted({sighting.colour for sighting in seen} - {colour})
        if self._random.random() >= self._traits.confuses or not others:
            return colour
        return str(self._random.choice(others))

    def colour_of(self, noun: str, seen: list[Sighting]) -> str:
        """Return the colour the prompt gives to a thing, or that of the likest one seen."""
        named = [thing.colour for thing in self.goal.things
                 if thing.noun == noun and thing.colour in COLOURS]
        return named[0] if named else seen[0].colour if seen else ''

    # -- doing -----------------------------------------------------------------------------

    def pick(self, sighting: Sighting, yaw: float, height: float, again: Again) -> Task:
        """
        Grasp a thing ``height`` above its foot and lift it; False when the gripper stays empty.

        With ``again`` a second view from above corrects the position; the two views also show
        whether it stands higher than on the table.
        """
        hands, at = self.hands, self.blurred(sighting)
        high = [*at.position[:2], height + HOVER_M]
        yield from hands.go(np.array(high), yaw)
        yield from hands.look()
        self.labels = labelled(hands.picture())
        closer = self._closer(sighting, again(0.0))
        if closer:
            raised = height_of(sighting, closer[0]) - sighting.position[2]
            if RAISED_M[0] < raised < RAISED_M[1]:
                closer = self._closer(sighting, again(raised)) or closer
                height += raised
            at = self.blurred(closer[0])
            yaw += _quarter(at.yaw - yaw)
        elif sighting.sure < SURE:
            return False
        low = np.array([*at.position[:2], height])
        yield from hands.go(low, yaw)
        yield from hands.wait(4)
        yield from hands.close()
        if hands.grip > EMPTY:
            yield from hands.open()
            return False
        yield from hands.go(_above(low, LIFT_M), yaw)
        return True

    def _closer(self, sighting: Sighting, again: list[Sighting]) -> list[Sighting]:
        return [closer for closer in again
                if closer.away(sighting.position) < SAME_M and closer.sure > SURE]

    def pick_cube(self, cube: Sighting) -> Task:
        """Pick a block."""
        return (yield from self.pick(
            cube, self.clear_yaw(cube), CUBE.height / 2,
            lambda base: sight.cubes(self.labels, self.eye, cube.colour, base)))

    def carry(self, place: Floats, height: float) -> Task:
        """Carry what is held to ``place`` (2,), release ``height`` above the table, retreat."""
        hands = self.hands
        high = np.array([*place[:2], max(height + 0.09, float(hands.at[2]))])
        if self.slips():
            part = self._random.uniform(0.1, 0.7)
            yield from hands.go(hands.at + part * (high - hands.at))
            yield from hands.open()
            return False
        yield from hands.go(high)
        yield from hands.wait(4)
        if hands.grip > EMPTY:
            return False
        low = np.array([*place[:2], height])
        yield from hands.go(low)
        yield from hands.wait(5)
        yield from hands.open()
        yield from hands.go(_above(low, 0.10))
        return True

    def slips(self) -> bool:
        """Draw whether the gripper opens too early this time."""
        return bool(self._random.random() < self._traits.drops)

    def errs(self) -> bool:
        """Draw whether the worker takes the wrong object this time."""
        return bool(self._random.random() < self._traits.confuses)

    def clear_yaw(self, cube: Sighting) -> float:
        """Return the yaw to grasp a block that leaves more room for the fingers."""
        others = [block.position[:2] for block in sight.cubes(self.labels, self.eye)
                  if block.away(cube.position) > 0.03]

        def room(yaw: float) -> float:
            side = FINGER_M * np.array([math.sin(yaw), -math.cos(yaw)])
            ends = (cube.position[:2] + side, cube.position[:2] - side)
            return min((float(np.hypot(*(end - place))) for end in ends for place in others),
                       default=1.0)

        straight = _quarter(cube.yaw)
        crossed = straight - math.copysign(math.pi / 2, straight)
        return crossed if room(straight) < FINGER_M < room(crossed) else straight


def work(worker: Worker) -> Steps:
    """Execute the goal, then hold; yields once per control step."""
    job = JOBS.get(worker.goal.verb)
    if job is not None:
        while not (yield from job(worker)):
            pass
    while True:
        yield


def lift(worker: Worker) -> Task:
    """Pick a block up and keep it."""
    yield from worker.look_over()
    seen = sight.cubes(worker.labels, worker.eye)
    cube = worker.cube(worker.wanted(worker.colour_of('cube', seen), seen))
    if cube is None or not (yield from worker.pick_cube(cube)):
        return False
    if worker.slips():
        yield from worker.hands.open()
        return False
    yield from worker.hands.wait(15)
    return worker.hands.grip < EMPTY


def put(worker: Worker) -> Task:
    """Put a thing where the prompt's last thing is: bowl, plate, tray or block."""
    nouns = [thing.noun for thing in worker.goal.things]
    if 'tray' in nouns:
        return (yield from sort(worker))
    if 'cup' in nouns:
        return (yield from put_cup(worker))
    yield from worker.look_over()
    seen = sight.cubes(worker.labels, worker.eye)
    colour = worker.colour_of('cube', seen)
    cube = worker.cube(worker.wanted(colour, seen))
    goal = _destination(worker)
    if cube is None or goal is None or not (yield from worker.pick_cube(cube)):
        return False
    place, height, rest = goal
    yield from worker.carry(place, height)
    yield from worker.look_over()
    again = worker.cube(colour, rest)
    return again is None or again.away(place) < 0.05


def _destination(worker: Worker) -> tuple[Floats, float, float] | None:
    """Return where to release a block (2,), at what height, and its height afterwards."""
    thing = worker.goal.things[-1]
    if thing.noun in ('bowl', 'plate'):
        radius, rim = BOWL if thing.noun == 'bowl' else PLATE
        ring = worker.blurred(sight.ring(worker.hands.picture(), worker.eye, radius, rim))
        return ring.position[:2], rim + CUBE.height / 2 + 0.025, 0.008
    base = worker.cube(thing.colour)
    if base is None:
        return None
    return worker.blurred(base).position[:2], 1.5 * CUBE.height + 0.003, CUBE.height


def put_cup(worker: Worker) -> Task:
    """Put a cup on the plate, upright."""
    yield from worker.look_over()

    def cups(colour: str = '', base: float = 0.0) -> list[Sighting]:
        return sight.likest(worker.labels, worker.eye, CUP, colour, base)

    seen = cups()
    colour = worker.wanted(worker.colour_of('cup', seen), seen)
    cup = worker.best([sighting for sighting in seen if sighting.colour == colour], SURE)
    plate = worker.blurred(sight.ring(worker.hands.picture(), worker.eye, *PLATE))
    if cup is None or not (yield from worker.pick(cup, half_turn(cup.yaw), CUP_GRASP_M,
                                                  lambda base: cups(colour, base))):
        return False
    yield from worker.carry(plate.position, CUP_GRASP_M + PLATE_M + 0.008)
    yield from worker.look_over()
    again = worker.best(cups(colour), SURE)
    return again is None or again.away(plate.position) < 0.05


def sort(worker: Worker) -> Task:
    """Put every block on the tray of its colour, one at a time."""
    yield from worker.look_over()
    trays = sight.trays(worker.labels, worker.eye)
    for tray in trays:
        cube = worker.cube(tray.colour)
        if cube is None or cube.away(tray.position) < 0.05:
            continue
        goal = worker.blurred(trays[0] if worker.errs() else tray)
        if (yield from worker.pick_cube(cube)):
            yield from worker.carry(goal.position, 0.034)
        return False
    return bool(trays)


def press(worker: Worker) -> Task:
    """Press the button with closed fingers."""
    hands = worker.hands
    yield from worker.look_over()
    button = sight.button(worker.labels, worker.eye)
    if worker.errs():
        seen = sight.cubes(worker.labels, worker.eye)
        button = seen[0] if seen else None
    if button is None:
        return False
    x, y, _ = worker.blurred(button).position
    hands.closed = 1.0
    yield from hands.go(np.array([x, y, ABOVE_BUTTON_M]), 0.0)
    yield from hands.go(np.array([x, y, PRESSED_M]), 0.0)
    yield from hands.wait(4)
    yield from hands.go(np.array([x, y, ABOVE_BUTTON_M]), 0.0)
    return True


def topple(worker: Worker) -> Task:
    """Push a bottle's neck sideways, away from the other things, until it does not stand."""
    hands = worker.hands
    yield from worker.look_over()
    seen = sight.likest(worker.labels, worker.eye, BOTTLE, rivals=(CUP,))
    colour = worker.wanted(worker.colour_of('bottle', seen), seen)
    bottle = worker.best([sighting for sighting in seen if sighting.colour == colour])
    if bottle is None:
        return False
    x, y, _ = worker.blurred(bottle).position
    others = [sighting.position[1] for sighting in seen if sighting.colour != colour]
    side = 1.0 if not others or y > others[0] else -1.0
    hands.closed = 1.0
    yield from hands.go(np.array([x - 0.02, y - side * 0.08, NECK_M + 0.10]), 0.0)
    yield from hands.go(np.array([x, y - side * 0.08, NECK_M]), 0.0)
    yield from hands.go(np.array([x, y + side * 0.10, NECK_M]), 0.0)
    yield from hands.wait(6)
    yield from worker.look_over()
    again = sight.likest(worker.labels, worker.eye, BOTTLE, colour, rivals=(CUP,))
    return not again or again[0].away(bottle.position) > 0.03


def find(worker: Worker) -> Task:
    """Lift one cup after the other aside, until the block is seen."""
    moved: list[Floats] = []
    while True:
        yield from worker.look_over()
        colour = worker.colour_of('cube', [])
        if moved and sight.near(worker.labels, worker.eye, colour, (0.0004, 0.004)):
            return True
        cups = [cup for cup in _cups_down(worker)
                if cup.sure > 0.75 and all(cup.away(place) > 0.04 for place in moved)]
        named = worker.colour_of('cup', cups)
        cups.sort(key=lambda cup: cup.colour != worker.wanted(named, cups))
        if not cups:
            return False
        cup = cups[0]
        place = _aside(cup, [cup.position for cup in cups[1:]])
        if (yield from worker.pick(cup, half_turn(cup.yaw), CUP_DOWN_GRASP_M,
                                   _again(worker, cup.colour))):
            yield from worker.carry(place, CUP_DOWN_GRASP_M + 0.004)
            moved.append(place)


def _again(worker: Worker, colour: str) -> Again:
    return lambda base: _cups_down(worker, colour, base)


def _cups_down(worker: Worker, colour: str = '', base: float = 0.0) -> list[Sighting]:
    return sight.likest(worker.labels, worker.eye, CUP_DOWN, colour, base)


def _aside(cup: Sighting, others: list[Floats]) -> Floats:
    """Return the free place (2,) beside a cup that is farthest from the others."""
    angles = np.radians(np.arange(0.0, 360.0, 45.0))
    places = [cup.position[:2] + ASIDE_M * np.array([math.cos(a), math.sin(a)]) for a in angles]
    near = [place for place in places if 0.36 < place[0] < 0.64 and abs(place[1]) < 0.28]
    return max(near or places, key=lambda place: min(
        (float(np.hypot(*(place - position[:2]))) for position in others), default=-abs(place[1])))


def shut(worker: Worker) -> Task:
    """Push the drawer shut at its handle."""
    yield from worker.look_over()
    panel = worker.best(sight.panels(worker.labels, worker.eye), 0.4)
    if panel is None:
        return False
    out = -np.array([math.cos(panel.yaw), math.sin(panel.yaw), 0.0])
    front = np.array([*worker.blurred(panel).position[:2], HANDLE_M[1]])
    yield from _shove(worker, front + out * (HANDLE_M[0] + 0.06), front + out * (
        HANDLE_M[0] + 0.006 - PUSH_M), panel.yaw)
    return not worker.errs()


def _shove(worker: Worker, start: Floats, end: Floats, yaw: float) -> Steps:
    hands = worker.hands
    hands.closed = 1.0
    up = np.array([0.0, 0.0, 0.10])
    yield from hands.go(start + up, yaw)
    yield from hands.go(start, yaw)
    yield from hands.go(end, yaw)
    yield from hands.wait(4)
    yield from hands.go(start, yaw)
    yield from hands.go(start + up, yaw)


JOBS = {'lift': lift, 'put': put, 'stack': put, 'sort': sort, 'press': press, 'topple': topple,
        'find': find, 'shut': shut}


def _above(place: Floats, rise: float) -> Floats:
    out: Floats = place + np.array([0.0, 0.0, rise])
    return out


def _quarter(turn: float) -> float:
    """Return ``turn`` less the quarter turns in it, -pi/4 to pi/4."""
    return turn - math.pi / 2 * round(turn / (math.pi / 2))


def half_turn(turn: float) -> float:
    """Return ``turn`` less the half turns in it, -pi/2 to pi/2."""
    return turn - math.pi * round(turn / math.pi)
