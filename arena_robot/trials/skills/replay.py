"""Pictures of an executed solution: the motions that were found, made once more."""

from collections.abc import Sequence

from arena_robot.core.observation import Pixels
from arena_robot.skills.base import Solution, Subtask, SubtaskKind
from arena_robot.skills.confined.code import RewardCode
from arena_robot.skills.specs.goals import SkillTask
from arena_robot.trials.skills.executor import LiveScene, SubtaskOutcome, run_subtask
from arena_robot.trials.skills.search import RewardSearch, SearchBudget
from arena_robot.trials.skills.view import StationView

PICTURE = (480, 270)


class SkillFilm:
    """
    Makes a solution's motions with a camera.

    ``frames`` are (stamp in ns, RGB pixels), one per control step; ``begins`` the index of each
    subtask's first frame. What the search tried and dropped is not shown.
    """

    def __init__(self, task: SkillTask, solution: Solution, seed: int, camera: str = 'left',
                 size: tuple[int, int] = PICTURE) -> None:
        self.frames: list[tuple[int, Pixels]] = []
        self.begins: list[int] = []
        self._camera = camera
        self._scene = LiveScene(task, solution, seed, (camera,), size, self._take)

    def make(self, steps: Sequence[Subtask], outcomes: Sequence[SubtaskOutcome]) -> None:
        """Make the motions of the subtasks that have an outcome, then close the station."""
        try:
            self._take()
            for number, (step, outcome) in enumerate(zip(steps, outcomes, strict=False)):
                self.begins.append(len(self.frames))
                self._scene.station.restore(self._scene.station.save())
                self._one(step, outcome, f'{number:016x}')
            self._scene.judged()
        finally:
            self._scene.close()

    def _one(self, step: Subtask, outcome: SubtaskOutcome, key: str) -> None:
        if step.kind is SubtaskKind.PRIMITIVE:
            run_subtask(self._scene, step, SearchBudget(), key)
        elif outcome.motion is not None:
            motions = self._scene.motions
            view = StationView(motions, self._scene.objects)
            RewardSearch(motions, view, RewardCode(step.code), SearchBudget()).again(
                outcome.motion)

    def _take(self) -> None:
        camera = self._scene.station.cameras[self._camera]
        self.frames.append((self._scene.station.clock.now_ns(), camera.frame(5.0).left.pixels))
