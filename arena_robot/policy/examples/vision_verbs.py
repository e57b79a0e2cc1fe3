"""The actions for each verb; an unsuccessful job is repeated."""

import math

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.policy.examples import vision_sight as sight
from arena_robot.policy.examples.vision_hands import Steps
from arena_robot.policy.examples.vision_shapes import BOTTLE, CUBE, CUP, CUP_DOWN, Found
from arena_robot.policy.examples.vision_worker import EMPTY, SURE, Again, Task, Worker, half_turn

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
    found = worker.cube(worker.wanted(worker.colour_of('cube', seen), seen))
    if found is None or not (yield from worker.pick_cube(found)):
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
    found = worker.cube(worker.wanted(colour, seen))
    goal = _destination(worker)
    if found is None or goal is None or not (yield from worker.pick_cube(found)):
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
        found = worker.blurred(sight.ring(worker.hands.picture(), worker.eye, radius, rim))
        return found.position[:2], rim + CUBE.height / 2 + 0.025, 0.008
    base = worker.cube(thing.colour)
    if base is None:
        return None
    return worker.blurred(base).position[:2], 1.5 * CUBE.height + 0.003, CUBE.height


def put_cup(worker: Worker) -> Task:
    """Put a cup on the plate, upright."""
    yield from worker.look_over()

    def cups(colour: str = '', base: float = 0.0) -> list[Found]:
        return sight.likest(worker.labels, worker.eye, CUP, colour, base)

    seen = cups()
    colour = worker.wanted(worker.colour_of('cup', seen), seen)
    found = worker.best([one for one in seen if one.colour == colour], SURE)
    plate = worker.blurred(sight.ring(worker.hands.picture(), worker.eye, *PLATE))
    if found is None or not (yield from worker.pick(found, half_turn(found.yaw), CUP_GRASP_M,
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
        found = worker.cube(tray.colour)
        if found is None or found.away(tray.position) < 0.05:
            continue
        goal = worker.blurred(trays[0] if worker.errs() else tray)
        if (yield from worker.pick_cube(found)):
            yield from worker.carry(goal.position, 0.034)
        return False
    return bool(trays)


def press(worker: Worker) -> Task:
    """Press the button with closed fingers."""
    hands = worker.hands
    yield from worker.look_over()
    found = sight.button(worker.labels, worker.eye)
    if worker.errs():
        seen = sight.cubes(worker.labels, worker.eye)
        found = seen[0] if seen else None
    if found is None:
        return False
    x, y, _ = worker.blurred(found).position
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
    bottle = worker.best([one for one in seen if one.colour == colour])
    if bottle is None:
        return False
    x, y, _ = worker.blurred(bottle).position
    others = [one.position[1] for one in seen if one.colour != colour]
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
        cups = [one for one in _cups_down(worker)
                if one.sure > 0.75 and all(one.away(place) > 0.04 for place in moved)]
        named = worker.colour_of('cup', cups)
        cups.sort(key=lambda one: one.colour != worker.wanted(named, cups))
        if not cups:
            return False
        cup = cups[0]
        place = _aside(cup, [one.position for one in cups[1:]])
        if (yield from worker.pick(cup, half_turn(cup.yaw), CUP_DOWN_GRASP_M,
                                   _again(worker, cup.colour))):
            yield from worker.carry(place, CUP_DOWN_GRASP_M + 0.004)
            moved.append(place)


def _again(worker: Worker, colour: str) -> Again:
    return lambda base: _cups_down(worker, colour, base)


def _cups_down(worker: Worker, colour: str = '', base: float = 0.0) -> list[Found]:
    return sight.likest(worker.labels, worker.eye, CUP_DOWN, colour, base)


def _aside(cup: Found, others: list[Floats]) -> Floats:
    """Return the free place (2,) beside a cup that is farthest from the others."""
    angles = np.radians(np.arange(0.0, 360.0, 45.0))
    places = [cup.position[:2] + ASIDE_M * np.array([math.cos(a), math.sin(a)]) for a in angles]
    near = [place for place in places if 0.36 < place[0] < 0.64 and abs(place[1]) < 0.28]
    return max(near or places, key=lambda place: min(
        (float(np.hypot(*(place - other[:2]))) for other in others), default=-abs(place[1])))


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
