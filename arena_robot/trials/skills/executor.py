"""
Executes solutions on the simulated station; every prefix of a solution is run once.

A result depends on the task, the seed, the scene and the subtasks up to it, and on nothing that
was run before: every subtask starts from a restored state, and its random numbers come from a
hash of its prefix.
"""

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena_robot.core.config import nearest
from arena_robot.core.episode import MAX_STEPS
from arena_robot.core.errors import ArenaError, ConfigError
from arena_robot.drivers.sim.station import SavedState, SimStation
from arena_robot.skills.base import (
    Execution,
    SkillObject,
    Solution,
    Subtask,
    SubtaskKind,
    SubtaskResult,
    TaskSpec,
)
from arena_robot.skills.confined.code import PrimitiveCode, RewardCode
from arena_robot.skills.robogen import read_task_folder
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import (
    TaskProposal,
    find_task,
    proposed_task,
    read_solution,
)
from arena_robot.skills.specs.tasks import SkillTask
from arena_robot.trials.skills.motion import SkillMotions
from arena_robot.trials.skills.proposals import MotionProposal
from arena_robot.trials.skills.scenes import (
    SkillScene,
    scene_setup,
    shown_objects,
    start_of_joints,
)
from arena_robot.trials.skills.search import FinderMaker, RewardSearch
from arena_robot.trials.skills.view import StationHand, StationView

SETTLE_STEPS = 6    # things come to rest before the oracle is asked
PRIMITIVE_STEPS = MAX_STEPS
# In memory; what was dropped is run again.
KEPT_STATES = 40
KEPT_SCENES = 4
_NO_PICTURES: tuple[str, ...] = ()
SEARCH, SAC = 'search', 'sac'
# By learner: what its results are said to come from, also in dataset files.
EXECUTORS = {SEARCH: 'simulated station, search over motions',
             SAC: 'simulated station, soft actor-critic'}


@dataclass(frozen=True)
class SubtaskOutcome:
    """A subtask's result, the oracle's answer after it, and the motion that was found."""

    result: SubtaskResult
    oracle: bool
    motion: MotionProposal | None = None


class LiveScene:
    """
    A station with one scene, and the motions on it; ``begun`` is its state at the start.

    ``on_step`` is called after every control step; ``whole_strokes``: see SkillMotions.
    """

    def __init__(self, task: SkillTask, solution: Solution, seed: int,
                 cameras: tuple[str, ...] = _NO_PICTURES,
                 size: tuple[int, int] = (320, 180),
                 on_step: Callable[[], None] = lambda: None,
                 whole_strokes: bool = False) -> None:
        scene = SkillScene(task, scene_setup(task.spec, solution, seed))
        self.station = SimStation.make(scene, seed, cameras=cameras, size=size,
                                       eyes=('left',))
        self.station.open()
        self.objects: tuple[SkillObject, ...] = shown_objects(task.spec, solution)
        self._on_step = on_step
        self.motions = SkillMotions(self.station, self._watch, whole_strokes)
        self.begun = self.station.save()

    def close(self) -> None:
        """Close the station's parts."""
        self.station.close()

    def judged(self) -> bool:
        """Let things come to rest; return the oracle's answer."""
        try:
            self.motions.begin(SETTLE_STEPS)
            self.motions.run(self.motions.hold(SETTLE_STEPS))
        except ArenaError:      # an arm in reflex stands still all the same
            pass
        return self.station.succeeded()

    def _watch(self) -> None:
        task = self.station.task
        if isinstance(task, SkillScene):
            task.watch(self.motions.links)
        self._on_step()


class StationExecutor:
    """
    Executes solutions of one task; see SkillExecutor.

    ``finder`` makes what finds the motions of reward subtasks: the search, unless told otherwise.
    """

    def __init__(self, task: SkillTask, finder: FinderMaker = RewardSearch,
                 whole_strokes: bool = False) -> None:
        self._task = task
        self._whole_strokes = whole_strokes
        self._finder = finder
        self._scenes: OrderedDict[str, LiveScene] = OrderedDict()
        self._states: OrderedDict[str, SavedState] = OrderedDict()
        self._outcomes: dict[str, SubtaskOutcome] = {}
        self.executed = 0

    def execute(self, spec: TaskSpec, solution: Solution, seed: int) -> Execution:
        """Run a solution; what was run before with the same prefix is not run again."""
        outcomes = self.outcomes(spec, solution, seed)
        results = tuple(outcome.result for outcome in outcomes)
        claimed = (0 < len(results) == len(solution.subtasks)
                   and all(result.success for result in results))
        return Execution(results, claimed, bool(outcomes) and outcomes[-1].oracle)

    def outcomes(self, spec: TaskSpec, solution: Solution, seed: int) -> list[SubtaskOutcome]:
        """Return the outcomes up to the first failure; none when there can be no such scene."""
        if spec.name != self._task.spec.name:
            raise ConfigError(f"this executor runs '{self._task.spec.name}', not '{spec.name}'")
        try:
            keys = prefix_keys(self._task.spec, solution, seed)
        except ConfigError:
            return []
        outcomes: list[SubtaskOutcome] = []
        for index, step in enumerate(solution.subtasks):
            outcome = self._outcomes.get(keys[index + 1])
            if outcome is None:
                outcome = self._run(solution, seed, keys, index, step)
            outcomes.append(outcome)
            if not outcome.result.success:
                break
        return outcomes

    def close(self) -> None:
        """Close all stations; what was found stays known."""
        while self._scenes:
            self._scenes.popitem()[1].close()
        self._states.clear()

    def _run(self, solution: Solution, seed: int, keys: list[str], index: int,
             step: Subtask) -> SubtaskOutcome:
        scene = self._at(solution, seed, keys, index)
        self.executed += 1
        outcome = run_subtask(scene, step, self._finder, keys[index + 1])
        if outcome.result.success:
            self._keep(keys[index + 1], scene.station.save())
        oracle = scene.judged()
        self._outcomes[keys[index + 1]] = SubtaskOutcome(outcome.result, oracle, outcome.motion)
        return self._outcomes[keys[index + 1]]

    def _at(self, solution: Solution, seed: int, keys: list[str], index: int) -> LiveScene:
        """Return the scene in the state after ``index`` subtasks, run again if it was dropped."""
        scene = self._scene(solution, seed, keys[0])
        state = scene.begun if index == 0 else self._states.get(keys[index])
        if state is None or state.scene is not scene.begun.scene:
            scene = self._at(solution, seed, keys, index - 1)
            self._redo(scene, solution.subtasks[index - 1], keys[index])
            state = scene.station.save()
            self._keep(keys[index], state)
        scene.station.restore(state)
        return scene

    def _redo(self, scene: LiveScene, step: Subtask, key: str) -> None:
        """Run a subtask whose state was dropped; a motion that was found is not looked for."""
        earlier = self._outcomes.get(key)
        if earlier is None or earlier.motion is None:
            run_subtask(scene, step, self._finder, key)
        else:
            view = StationView(scene.motions, scene.objects)
            self._finder(scene.motions, view, RewardCode(step.code)).again(earlier.motion)

    def _scene(self, solution: Solution, seed: int, key: str) -> LiveScene:
        if key not in self._scenes:
            self._scenes[key] = LiveScene(self._task, solution, seed,
                                          whole_strokes=self._whole_strokes)
        self._scenes.move_to_end(key)
        while len(self._scenes) > KEPT_SCENES:
            self._scenes.popitem(last=False)[1].close()
        return self._scenes[key]

    def _keep(self, key: str, state: SavedState) -> None:
        self._states[key] = state
        self._states.move_to_end(key)
        while len(self._states) > KEPT_STATES:
            self._states.popitem(last=False)


def run_subtask(scene: LiveScene, step: Subtask, finder: FinderMaker,
                key: str) -> SubtaskOutcome:
    """Run one subtask from the station's present state; no error of it is raised."""
    motions = scene.motions
    view = StationView(motions, scene.objects)
    steps, cpu_s = motions.steps, time.process_time()
    success, error, motion = False, '', None
    try:
        if step.kind is SubtaskKind.REWARD:
            search = finder(motions, view, RewardCode(step.code))
            success = search.run(np.random.default_rng(int(key[:16], 16)))
            motion, error = search.found, '' if success else 'no motion reaches the indicator'
        else:
            code = PrimitiveCode(step.code)
            motions.begin(PRIMITIVE_STEPS)
            success = code(StationHand(motions, view))
            error = '' if success else 'the indicator is false after the motion'
    except ArenaError as failure:
        error = str(failure)
    result = SubtaskResult(success, motions.steps - steps, time.process_time() - cpu_s, error)
    return SubtaskOutcome(result, False, motion)


def prefix_keys(spec: TaskSpec, solution: Solution, seed: int) -> list[str]:
    """Return a hash of the scene, then one of every prefix; ConfigError for a wrong scene."""
    shown = sorted(item.name for item in shown_objects(spec, solution))
    start = [spec.name, seed, shown, sorted(start_of_joints(spec, solution).items())]
    keys = [_hash(json.dumps(start))]
    for step in solution.subtasks:
        same = [keys[-1], step.kind.value, step.code, step.action_space.value]
        keys.append(_hash(json.dumps(same)))
    return keys


def scene_problem(task: SkillTask | None, seed: int, spec: TaskSpec, solution: Solution) -> str:
    """
    Return why the simulator cannot begin a solution in its scene; empty when it can.

    The scene names joints of the task and starts within their limits, at the task's; nothing
    overlaps, and the task is not done. None is the task of the table with the name of ``spec``.
    """
    joints = solution.scene.get('joints', {})
    if isinstance(joints, Mapping) and (unknown := sorted(set(joints) - set(spec.initial))):
        return f"the scene has no joint '{unknown[0]}'; it has {', '.join(spec.initial)}"
    try:
        live = LiveScene(task or find_task(spec.name), solution, seed)
    except ConfigError as error:
        return str(error)
    try:
        scene = live.station.task
        return scene.start_problem(live.station) if isinstance(scene, SkillScene) else ''
    finally:
        live.close()


def proposal_problem(seed: int, proposal: TaskProposal) -> str:
    """Return why there is no such task, by its scene or by the simulator; empty if there is."""
    try:
        task = proposed_task(proposal)
    except ConfigError as error:
        return str(error)
    return scene_problem(task, seed, task.spec, reference_solution(task))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def motion_finder(learner: str) -> FinderMaker:
    """Return what finds motions; ConfigError where the packages of a learner are missing."""
    if learner == SEARCH:
        return RewardSearch
    if learner == SAC:
        from arena_robot.trials.skills.learning import sac_learner
        return sac_learner()
    raise ConfigError(f"no learner is called '{learner}'.{nearest(learner, EXECUTORS)}")


def station_executor(spec: TaskSpec, learner: str = SEARCH) -> StationExecutor:
    """Return an executor of a task on the simulated station, with the default budget."""
    return StationExecutor(find_task(spec.name), motion_finder(learner))


def learner_of(executor: str) -> str:
    """Return the learner of a dataset's executor; the search when it is another one's."""
    return next((name for name, title in EXECUTORS.items() if title == executor), SEARCH)


def solution_of(task: SkillTask, path: Path | None) -> Solution:
    """Return the solution in a file or a task folder of RoboGen; None: the task's reference."""
    if path is None:
        return reference_solution(task)
    solution = (read_task_folder if path.is_dir() else read_solution)(path)
    if solution.task != task.spec.name:
        raise ConfigError(f"{path} solves '{solution.task}', not '{task.spec.name}'")
    return solution
