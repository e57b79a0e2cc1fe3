"""The independent check of a task: what its goals ask for, whatever a solution claims."""

from collections.abc import Iterator

from arena_robot.drivers.sim.tasks.base import ExpertHands, Setup, apart
from arena_robot.drivers.sim.truth import SceneLinks, SceneTruth
from arena_robot.skills.specs.goals import JointGoal, LiftGoal, PlaceGoal, PressGoal, SkillTask

STARTED = 0.05      # of a joint's range: how near its start must be to the task's own
UNTOUCHED = 0.25


class SkillScene:
    """One seed's scene of a skill task, as the simulated station takes it."""

    category = 'skill'

    def __init__(self, task: SkillTask, setup: Setup) -> None:
        self.name = task.spec.name
        self.setup = setup
        self.task = task
        self._pressed: set[str] = set()
        self._starts: dict[str, float] = {}
        self._height: dict[str, float] = {}

    def stage(self, truth: SceneTruth) -> float:
        """Return 0: a skill has no stages."""
        return 0.0

    def potential(self, truth: SceneTruth) -> float:
        """Return 0; the first call, at reset, notes the start."""
        if not self._starts:
            links = SceneLinks(truth.world)
            self._starts = {key: self._share(links, key) for key in self._keys(links)}
            for goal in self.task.goals:
                if isinstance(goal, LiftGoal) and links.has_body(goal.object):
                    self._height[goal.object] = float(truth.position(goal.object)[2])
        return 0.0

    def watch(self, links: SceneLinks) -> None:
        """Note the buttons that are pressed now; called after every control step."""
        for goal in self.task.goals:
            key = f'{goal.object}/{goal.joint}' if isinstance(goal, PressGoal) else ''
            if key in self._starts and self._share(links, key) <= goal.tolerance:  # type: ignore
                self._pressed.add(key)

    def done(self, truth: SceneTruth) -> bool:
        """Return whether the start was the task's, all goals hold, and nothing else moved."""
        links = SceneLinks(truth.world)
        initial = self.task.spec.initial
        if any(abs(self._starts.get(key, -1.0) - share) > STARTED
               for key, share in initial.items()):
            return False
        if any(abs(self._share(links, key) - initial[key]) > UNTOUCHED
               for key in self.task.untouched):
            return False
        return all(self._holds(goal, truth, links) for goal in self.task.goals)

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Do nothing: solutions come from policy models."""
        yield from ()

    def _holds(self, goal: JointGoal | PressGoal | PlaceGoal | LiftGoal, truth: SceneTruth,
               links: SceneLinks) -> bool:
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
