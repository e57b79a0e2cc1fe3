"""
What the code of a subtask means, found by running it in made-up states of the scene.

No simulator is needed: joints, the gripper and objects are put where a question needs them, and
the success indicator answers. So two spellings of one indicator have the same facts. Any policy
model's code is read, not only the generator's, and it runs confined (`skills/confined`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from arena_robot.core.errors import CodeRefused
from arena_robot.core.observation import Floats
from arena_robot.skills.base import SkillObject, Subtask, SubtaskKind
from arena_robot.skills.confined.code import PrimitiveCode, RewardCode

PRIMITIVES = ('grasp_object', 'grasp_object_link', 'release_grasp')
JOINT, GRIPPER, PLACE = 'joint', 'gripper', 'place'
UPPER, LOWER, MIDDLE, NO_GOAL = 'upper', 'lower', 'middle', ''
Names = tuple[str, ...]
KEPT = 20000    # facts of subtasks that stay known: more than a bench writes
# Shares of a joint's range at which an indicator is asked: an interval of a twentieth is found.
SHARES = np.linspace(0.0, 1.0, 41)
# Distances and heights at which an indicator is asked, m: from a touch to beyond a table.
DISTANCES = np.array([1e-3, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5])
HEIGHTS = np.array([0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5])
HALVINGS = 12        # of the way between two answers: the edge is right to three digits
DIGITS = 3
APART_M = 2.0        # between things that are not what the question is about
TABLE_M = 0.03       # height of things that stand on the table
ELSEWHERE = 0.37     # share of its range at which a joint stands that nobody asks about
HALF_BOX_M = 0.05    # of a bounding box


@dataclass(frozen=True)
class CodeFacts:
    """
    What was found.

    ``calls`` are (function, names): motions in their order, the readings of a reward sorted.
    ``about`` is what the success depends on: joint, gripper, place, or empty for nothing, and
    ``of`` names it: object and joint, or object and link. ``goal`` of a joint is upper, lower or
    middle; ``share`` is the middle's. ``tolerance`` is how far from the goal success begins: a
    share of a joint's range, m for places; None when nothing bounds it. ``problem`` says why the
    code cannot run.
    """

    calls: tuple[tuple[str, Names], ...] = ()
    about: str = ''
    of: Names = ()
    goal: str = NO_GOAL
    share: float = 0.0
    tolerance: float | None = None
    problem: str = ''

    def names(self, *functions: str) -> list[Names]:
        """Return the names that these functions were called with."""
        return [names for function, names in self.calls if function in functions]


@lru_cache(maxsize=KEPT)
def facts_of(subtask: Subtask, objects: tuple[SkillObject, ...]) -> CodeFacts:
    """Return the facts of a subtask in a scene of these objects."""
    scene = MadeUpScene(objects)
    try:
        if subtask.kind is SubtaskKind.PRIMITIVE:
            PrimitiveCode(subtask.code)(scene)
            return CodeFacts(tuple(scene.calls))
        code = RewardCode(subtask.code)
        code(scene)
        calls = tuple(sorted(scene.calls))
        return replace(_Probe(scene, lambda: code(scene)[1]).facts(), calls=calls)
    except CodeRefused as error:
        return CodeFacts(tuple(scene.calls), problem=str(error))


class MadeUpScene:
    """
    Reads as a station's view does, and only notes motions; unknown names are made up, too.

    ``shares`` are those of joints that a question moves, ``places`` those of objects and links,
    which else stand at their ``homes``, far apart. ``hand`` is the point between the pads.
    """

    def __init__(self, objects: Sequence[SkillObject]) -> None:
        self._limits = {(o.name, j.name): (j.low, j.high) for o in objects for j in o.joints}
        self.calls: dict[tuple[str, Names], None] = {}
        self.joints: dict[Names, None] = {}
        self.homes: dict[Names, Floats] = {}
        self.shares: dict[Names, float] = {}
        self.places: dict[Names, Floats] = {}
        self.hand: Floats | None = None

    def reset(self) -> None:
        """Put everything where no indicator is likely to hold."""
        self.shares, self.places, self.hand = {}, {}, None

    def get_eef_pos(self) -> tuple[Floats, Floats]:
        """Return where the hand is, and that it points down."""
        self._note('get_eef_pos')
        return (np.array([0.0, -APART_M, 0.5]) if self.hand is None else self.hand,
                np.array([np.pi, 0.0, 0.0]))

    def get_position(self, object_name: str) -> Floats:
        """Return where an object is."""
        self._note('get_position', object_name)
        return self._place(object_name)

    def get_link_state(self, object_name: str, link_name: str) -> Floats:
        """Return where a link is."""
        self._note('get_link_state', object_name, link_name)
        return self._place(object_name, link_name)

    def get_joint_state(self, object_name: str, joint_name: str) -> float:
        """Return a joint's position."""
        self._note('get_joint_state', object_name, joint_name)
        names = (object_name, joint_name)
        self.joints[names] = None
        low, high = self._limits.get(names, (0.0, 1.0))
        return low + self.shares.get(names, ELSEWHERE) * (high - low)

    def get_joint_limit(self, object_name: str, joint_name: str) -> tuple[float, float]:
        """Return a joint's limits."""
        self._note('get_joint_limit', object_name, joint_name)
        return self._limits.get((object_name, joint_name), (0.0, 1.0))

    def get_bounding_box(self, object_name: str) -> tuple[Floats, Floats]:
        """Return an object's corners."""
        self._note('get_bounding_box', object_name)
        return self._box(object_name)

    def get_bounding_box_link(self, object_name: str, link_name: str) -> tuple[Floats, Floats]:
        """Return a link's corners."""
        self._note('get_bounding_box_link', object_name, link_name)
        return self._box(object_name, link_name)

    def grasp_object(self, object_name: str) -> None:
        """Note the motion."""
        self._note('grasp_object', object_name)

    def grasp_object_link(self, object_name: str, link_name: str) -> None:
        """Note the motion."""
        self._note('grasp_object_link', object_name, link_name)

    def release_grasp(self) -> None:
        """Note the motion."""
        self._note('release_grasp')

    def check_grasped(self, object_name: str, link_name: str = '') -> bool:
        """Note the question; every grasp holds."""
        self._note('check_grasped', *(name for name in (object_name, link_name) if name))
        return True

    def _note(self, function: str, *names: str) -> None:
        self.calls[function, names] = None

    def _place(self, *names: str) -> Floats:
        home = self.homes.setdefault(
            names, np.array([APART_M * (1 + len(self.homes)), 0.0, TABLE_M]))
        return self.places.get(names, home)

    def _box(self, *names: str) -> tuple[Floats, Floats]:
        place = self._place(*names)
        return place - HALF_BOX_M, place + HALF_BOX_M


class _Probe:
    """Asks an indicator in states of a scene."""

    def __init__(self, scene: MadeUpScene, holds: Callable[[], bool]) -> None:
        self._scene, self._holds = scene, holds

    def facts(self) -> CodeFacts:
        """Return what the indicator depends on first: a joint, the hand, or places."""
        for found in (self._joints, self._hand, self._pairs, self._heights):
            for facts in found():
                return facts
        return CodeFacts()

    def _joints(self) -> Iterator[CodeFacts]:
        for together in (False, True):
            for names in tuple(self._scene.joints):
                def at(share: float, names: Names = names, together: bool = together) -> bool:
                    self._scene.reset()
                    if together:    # indicators that ask for a hand at its link, too
                        self._scene.hand = np.zeros(3)
                        self._scene.places = {place: np.zeros(3) for place in self._scene.homes}
                    self._scene.shares[names] = share
                    return self._holds()

                held = np.array([at(share) for share in SHARES])
                if held.any() and not held.all():
                    yield _of_joint(names, held, at)

    def _hand(self) -> Iterator[CodeFacts]:
        for names, home in tuple(self._scene.homes.items()):
            def at(distance: float, home: Floats = home) -> bool:
                self._scene.reset()
                self._scene.hand = home + np.array([0.0, distance, 0.0])
                return self._holds()

            yield from _of_distance(GRIPPER, names, at)

    def _pairs(self) -> Iterator[CodeFacts]:
        homes = tuple(self._scene.homes.items())
        for names, _ in homes:
            for other, home in homes:
                if names == other:
                    continue

                def at(distance: float, names: Names = names, home: Floats = home) -> bool:
                    self._scene.reset()
                    self._scene.places[names] = home + np.array([0.0, distance, 0.0])
                    self._scene.hand = self._scene.places[names]
                    return self._holds()

                yield from _of_distance(PLACE, names, at)

    def _heights(self) -> Iterator[CodeFacts]:
        for names, home in tuple(self._scene.homes.items()):
            def at(height: float, names: Names = names, home: Floats = home) -> bool:
                self._scene.reset()
                self._scene.places[names] = np.array([*home[:2], height])
                self._scene.hand = self._scene.places[names]
                return self._holds()

            if at(float(HEIGHTS[-1])) and not at(0.0):
                low = max(height for height in HEIGHTS if not at(float(height)))
                high = min(height for height in HEIGHTS if height > low)
                yield CodeFacts(about=PLACE, of=names, tolerance=_edge(at, low, high))


def _of_joint(names: Names, held: 'np.ndarray[tuple[int], np.dtype[np.bool_]]',
              at: Callable[[float], bool]) -> CodeFacts:
    first, last = int(np.argmax(held)), len(held) - 1 - int(np.argmax(held[::-1]))
    low = 0.0 if first == 0 else _edge(at, SHARES[first - 1], SHARES[first])
    high = 1.0 if last == len(held) - 1 else _edge(at, SHARES[last + 1], SHARES[last])
    if held[-1] and not held[0]:
        return CodeFacts(about=JOINT, of=names, goal=UPPER, tolerance=round(1.0 - low, DIGITS))
    if held[0] and not held[-1]:
        return CodeFacts(about=JOINT, of=names, goal=LOWER, tolerance=high)
    return CodeFacts(about=JOINT, of=names, goal=MIDDLE, share=round((low + high) / 2, DIGITS),
                     tolerance=round((high - low) / 2, DIGITS))


def _of_distance(about: str, names: Names, at: Callable[[float], bool]) -> Iterator[CodeFacts]:
    """Yield the facts of an indicator that holds near ``names`` and not far from it."""
    if at(float(DISTANCES[0])) and not at(APART_M / 2):
        near = max(distance for distance in DISTANCES if at(float(distance)))
        far = min((distance for distance in DISTANCES if distance > near), default=APART_M / 2)
        yield CodeFacts(about=about, of=names, tolerance=_edge(at, far, near))


def _edge(at: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return where the answer changes between a place where it is no and one where it is yes."""
    for _ in range(HALVINGS):
        middle = 0.5 * (outside + inside)
        outside, inside = (outside, middle) if at(middle) else (middle, inside)
    return round(float(inside), DIGITS)
