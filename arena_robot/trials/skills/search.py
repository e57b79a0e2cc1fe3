"""
Reward subtasks: sampling-based search for a motion on the station itself.

Proposals along the joints and to the places that the code reads come first, then shifted copies
of those with the best reward, by the cross-entropy method. The search stops at the first motion
whose success indicator holds, also after the arm has come to rest; its end state is kept. What
finds motions has the interface `FinderMaker`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from arena_robot.core.errors import CodeRefused, DriverError, OutOfSteps, SafetyError
from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.station import SavedState
from arena_robot.skills.confined.code import RewardCode
from arena_robot.trials.skills.motion import SkillMotions
from arena_robot.trials.skills.proposals import (
    MotionProposal,
    held_proposals,
    pushed_proposals,
)
from arena_robot.trials.skills.view import StationView

_ROLLOUT_STEPS = 220
_SHIFTED = 6
_WAIT_STEPS = 8
_EMPTY_M = 0.004
_ELITE = 2
_SPREAD_M = 0.012
_STOPPED = -1e6
REST_STEPS = 3


@dataclass(frozen=True)
class SearchBudget:
    """
    Most rollouts, simulated control steps and seconds of CPU time of one reward subtask.

    Only a limit of ``cpu_s`` that is reached makes results depend on the machine.
    """

    rollouts: int = 16
    steps: int = 1600
    cpu_s: float = 60.0


_DEFAULT = SearchBudget()


class RewardSearch:
    """Searches for a motion that makes one subtask's success indicator true."""

    def __init__(self, motions: SkillMotions, view: StationView, code: RewardCode,
                 budget: SearchBudget = _DEFAULT) -> None:
        self._motions, self._view, self._code, self._budget = motions, view, code, budget
        self._links = motions.links
        self._begun, self._begun_s = motions.steps, time.process_time()
        self._rollouts = 0
        self.found: MotionProposal | None = None

    def run(self, rng: np.random.Generator) -> bool:
        """Return whether a motion was found; if not, the station is as it was before."""
        return made_true(self._motions, self._view, self._code,
                         lambda start: self._searched(start, rng))

    def again(self, proposal: MotionProposal) -> bool:
        """Make one motion from the present state, as the search did; return its success."""
        self._code(self._view)
        return self._rollout(self._motions.station.save(), proposal) is None

    def _searched(self, start: SavedState, rng: np.random.Generator) -> bool:
        scored = []
        for proposal in self._proposals():
            if self._spent():
                break
            score = self._rollout(start, proposal)
            if score is None:
                return True
            scored.append((score, proposal))
        return self._improve(start, scored, rng)

    def _improve(self, start: SavedState, scored: list[tuple[float, MotionProposal]],
                 rng: np.random.Generator) -> bool:
        spread = np.array([_SPREAD_M] * 3)
        while scored and not self._spent():
            scored.sort(key=lambda row: -row[0])
            elite = scored[:_ELITE]
            for number in range(_SHIFTED):
                if self._spent():
                    return False
                proposal = elite[number % len(elite)][1].moved(rng.normal(0.0, spread))
                score = self._rollout(start, proposal)
                if score is None:
                    return True
                scored.append((score, proposal))
            spread *= 0.8
        return False

    def _proposals(self) -> list[MotionProposal]:
        links, motions = self._links, self._motions
        bodies, joints = list(self._view.asked_bodies), list(self._view.asked_joints)
        grasped = self._grasped(bodies, joints)
        targets = [self._place(body) for body in bodies if body != grasped]
        if grasped is not None:
            motions.begin(_ROLLOUT_STEPS)
            return list(held_proposals(links, grasped, motions.pose, targets))
        moving = joints or [joint for body in bodies for joint in links.joints_of(body)]
        return list(pushed_proposals(links, bodies, moving, 0.0, targets))

    def _grasped(self, bodies: list[str], joints: list[str]) -> str | None:
        """Return what the fingers hold now: of what the code reads, else anything."""
        if self._motions.station.gripper.state().width_m < _EMPTY_M:
            return None
        scene = self._motions.station.task.setup.props
        moved = [self._links.body_of(joint) for joint in joints]
        for name in (*bodies, *moved, *(prop.name for prop in scene)):
            for body in self._links.tree(name):
                if (self._links.is_free(body) or self._links.joints_of(body)) and (
                        self._links.held([body])):
                    return body
        return None

    def _place(self, body: str) -> Floats:
        grip = self._links.grip(body)
        return self._motions.station.truth.position(body) if grip is None else grip.point

    def _rollout(self, start: SavedState, proposal: MotionProposal) -> float | None:
        """Return the score of a motion, None when it succeeded."""
        motions = self._motions
        if self._rollouts:
            motions.station.restore(start)
        self._rollouts += 1
        motions.begin(min(_ROLLOUT_STEPS, self._left()))
        try:
            if proposal.closed:
                motions.run(motions.grip(0.0))
            if proposal.start is not None:
                motions.run(motions.over(proposal.start))
            return self._scored(proposal)
        except (DriverError, SafetyError, OutOfSteps):
            return _STOPPED

    def _scored(self, proposal: MotionProposal) -> float | None:
        motions, best, reward = self._motions, _STOPPED, _STOPPED
        path = [*proposal.path, *proposal.path[-1:] * _WAIT_STEPS]
        for _ in motions.follow(path, proposal.widths):
            reward, success = self._code(self._view)
            best = max(best, reward)
            if success and rests(motions, self._view, self._code):
                self.found = proposal
                return None
        return 0.5 * best + 0.5 * reward

    def _left(self) -> int:
        return self._budget.steps - (self._motions.steps - self._begun)

    def _spent(self) -> bool:
        budget = self._budget
        return (self._rollouts >= budget.rollouts or self._left() <= 0
                or time.process_time() - self._begun_s >= budget.cpu_s)


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
