"""
A verified solution as a policy: its motions in scenes of the station, each tried as a policy.

The solution is executed in every scene with a gripper that opens and closes fully, as policies'
actions do. What succeeds is recorded, played back through the data path of a session (observation,
policy, chunks, safety, driver), and kept when the oracle agrees again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.policy.recorded_skill import (
    PREFIX,
    SkillMotion,
    SkillRecording,
    outlines,
    write_recording,
)
from arena_robot.skills.base import Solution
from arena_robot.skills.specs.table import slug
from arena_robot.skills.specs.tasks import SkillTask
from arena_robot.trials.skills.executor import LiveScene, StationExecutor, SubtaskOutcome
from arena_robot.trials.skills.films import replay
from arena_robot.trials.skills.search import FinderMaker, RewardSearch
from arena_robot.trials.skills.station_tasks import address, scene_seed
from arena_robot.trials.trial import PICTURE, Course, Trial

MARGIN_STEPS = 15    # a second after the last action, in which the oracle may still agree


@dataclass(frozen=True)
class SceneExport:
    """What became of one scene: executed with success, and again when played as a policy."""

    scene: int
    executed: bool
    motion: SkillMotion | None = None

    @property
    def kept(self) -> bool:
        """Whether the motion is worth keeping."""
        return self.motion is not None


def export_scene(task: SkillTask, solution: Solution, scene: int,
                 finder: FinderMaker = RewardSearch) -> SceneExport:
    """Return the motion of a solution in the scene that a station's seed has, if it succeeds."""
    seed = scene_seed(scene)
    executor = StationExecutor(task, finder, whole_strokes=True)
    try:
        if not executor.execute(task.spec, solution, seed).success:
            return SceneExport(scene, False)
        outcomes = executor.outcomes(task.spec, solution, seed)
    finally:
        executor.close()
    motion = _recorded(task, solution, scene, outcomes)
    return SceneExport(scene, True, motion if _plays(task, motion) else None)


def _recorded(task: SkillTask, solution: Solution, scene: int,
              outcomes: Sequence[SubtaskOutcome]) -> SkillMotion:
    actions: list[Floats] = []
    live = LiveScene(task, solution, scene_seed(scene), on_step=lambda: actions.append(
        live.motions.sent), whole_strokes=True)
    start = live.station.arm.state().q
    replay(live, solution.subtasks, outcomes)
    return SkillMotion(scene, start, np.array(actions), start_picture(task, scene))


def start_picture(task: SkillTask, scene: int) -> Floats:
    """Return the outlines of a scene's start, as the left camera of the station sees it."""
    from arena_robot.drivers.sim.station import SimStation
    with SimStation.make(address(slug(task.spec.name)), scene, cameras=('left',), size=PICTURE,
                         eyes=('left',)) as station:
        return outlines(station.cameras['left'].frame(5.0).left.pixels)


def _plays(task: SkillTask, motion: SkillMotion) -> bool:
    with TemporaryDirectory(prefix='arena-skill-') as folder:
        path = Path(folder) / 'motion.json'
        write_recording(path, SkillRecording(task.spec.name, (motion,), {}))
        course = Course()
        try:
            outcome = course.run(Trial(f'{PREFIX}{path}', address(slug(task.spec.name)),
                                       motion.scene, len(motion.actions) + MARGIN_STEPS))
        finally:
            course.close()
    return outcome.succeeded


def recording_of(task: SkillTask, solution: Solution, scenes: Sequence[SceneExport]
                 ) -> SkillRecording:
    """Return the recording of what is kept; ``about`` says of how many scenes."""
    about = {'solution': {'policy': solution.policy, 'subtasks': [
        {'name': step.name, 'kind': step.kind.value, 'code': step.code}
        for step in solution.subtasks]},
        'scenes': [scene.scene for scene in scenes],
        'executed': [scene.scene for scene in scenes if scene.executed]}
    return SkillRecording(task.spec.name, tuple(scene.motion for scene in scenes
                                                if scene.motion is not None), about)
