"""
Steps of every job: look over the table, approach, look again, grasp, check, carry, release.

A :class:`Worker` can be given faults; they make the weaker policies of the examples.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.policy.examples import vision_sight as sight
from arena_robot.policy.examples.vision_body import PAD_M, WristEye, downward
from arena_robot.policy.examples.vision_colours import COLOURS, Labels, labelled
from arena_robot.policy.examples.vision_hands import Steps, VisionHands
from arena_robot.policy.examples.vision_prompt import Goal
from arena_robot.policy.examples.vision_shapes import CUBE, Found, height_of

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
Again = Callable[[float], list[Found]]
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

    def best(self, found: list[Found], least: float = 0.3) -> Found | None:
        """Return the first of ``found``, if it is sure enough."""
        return found[0] if found and found[0].sure > least else None

    def cube(self, colour: str, base: float = 0.0) -> Found | None:
        """Return the block of a colour in the newest picture."""
        return self.best(sight.cubes(self.labels, self.eye, colour, base))

    def blurred(self, found: Found) -> Found:
        """Return an object with this worker's position error."""
        noise = self._random.normal(0.0, 1.0, 2) * self._traits.noise_m
        return replace(found, position=found.position + np.array([*noise, 0.0]))

    def wanted(self, colour: str, seen: list[Found]) -> str:
        """Return the colour to take; a confused worker may choose another visible one."""
        others = sorted({one.colour for one in seen} - {colour})
        if self._random.random() >= self._traits.confuses or not others:
            return colour
        return str(self._random.choice(others))

    def colour_of(self, noun: str, seen: list[Found]) -> str:
        """Return the colour the prompt gives to a thing, or that of the likest one seen."""
        named = [thing.colour for thing in self.goal.things
                 if thing.noun == noun and thing.colour in COLOURS]
        return named[0] if named else seen[0].colour if seen else ''

    # -- doing -----------------------------------------------------------------------------

    def pick(self, found: Found, yaw: float, height: float, again: Again) -> Task:
        """
        Grasp a thing ``height`` above its foot and lift it; False when the gripper stays empty.

        With ``again`` a second view from above corrects the position; the two views also show
        whether it stands higher than on the table.
        """
        hands, at = self.hands, self.blurred(found)
        high = [*at.position[:2], height + HOVER_M]
        yield from hands.go(np.array(high), yaw)
        yield from hands.look()
        self.labels = labelled(hands.picture())
        closer = self._closer(found, again(0.0))
        if closer:
            raised = height_of(found, closer[0]) - found.position[2]
            if RAISED_M[0] < raised < RAISED_M[1]:
                closer = self._closer(found, again(raised)) or closer
                height += raised
            at = self.blurred(closer[0])
            yaw += _quarter(at.yaw - yaw)
        elif found.sure < SURE:
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

    def _closer(self, found: Found, again: list[Found]) -> list[Found]:
        return [one for one in again if one.away(found.position) < SAME_M and one.sure > SURE]

    def pick_cube(self, found: Found) -> Task:
        """Pick a block."""
        return (yield from self.pick(
            found, self.clear_yaw(found), CUBE.height / 2,
            lambda base: sight.cubes(self.labels, self.eye, found.colour, base)))

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

    def clear_yaw(self, found: Found) -> float:
        """Return the yaw to grasp a block that leaves more room for the fingers."""
        others = [one.position[:2] for one in sight.cubes(self.labels, self.eye)
                  if one.away(found.position) > 0.03]

        def room(yaw: float) -> float:
            side = FINGER_M * np.array([math.sin(yaw), -math.cos(yaw)])
            ends = (found.position[:2] + side, found.position[:2] - side)
            return min((float(np.hypot(*(end - other))) for end in ends for other in others),
                       default=1.0)

        straight = _quarter(found.yaw)
        crossed = straight - math.copysign(math.pi / 2, straight)
        return crossed if room(straight) < FINGER_M < room(crossed) else straight


def _above(place: Floats, rise: float) -> Floats:
    out: Floats = place + np.array([0.0, 0.0, rise])
    return out


def _quarter(turn: float) -> float:
    """Return ``turn`` less the quarter turns in it, -pi/4 to pi/4."""
    return turn - math.pi / 2 * round(turn / (math.pi / 2))


def half_turn(turn: float) -> float:
    """Return ``turn`` less the half turns in it, -pi/2 to pi/2."""
    return turn - math.pi * round(turn / math.pi)
