"""What finds the motion of a reward subtask, and when a motion counts."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from arena_robot.core.errors import CodeRefused
from arena_robot.drivers.sim.station import SavedState
from arena_robot.skills.confined.code import RewardCode
from arena_robot.trials.skills.motion import SkillMotions
from arena_robot.trials.skills.proposals import MotionProposal
from arena_robot.trials.skills.view import StationView

REST_STEPS = 3


class MotionFinder(Protocol):
    """
    Finds a motion that makes one subtask's success indicator true.

    ``found`` is that motion; None as long as there is none, or when none was needed.
    """

    found: MotionProposal | None

    def run(self, rng: np.random.Generator) -> bool:
        """Return whether the indicator holds now; if not, the station is as it was before."""

    def again(self, proposal: MotionProposal) -> bool:
        """Make a motion that was found from the present state; return its success."""


FinderMaker = Callable[[SkillMotions, StationView, RewardCode], MotionFinder]


def made_true(motions: SkillMotions, view: StationView, code: RewardCode,
              find: Callable[[SavedState], bool]) -> bool:
    """
    Return whether the indicator holds, if need be after ``find``; see MotionFinder.run.

    ``find`` gets the state at the start. It returns whether it left the station with success.
    """
    if code(view)[1]:
        return True
    start = motions.station.save()
    try:
        if find(start):
            return True
    except CodeRefused:
        motions.station.restore(start)
        raise
    motions.station.restore(start)
    return False


def rests(motions: SkillMotions, view: StationView, code: RewardCode) -> bool:
    """Return whether the indicator also holds at rest, or while the hand keeps pushing."""
    motions.run(motions.hold(REST_STEPS))
    if code(view)[1]:
        return True
    motions.run(motions.follow([motions.pose] * REST_STEPS))
    return code(view)[1]
