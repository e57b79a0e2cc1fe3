"""The motions that were found for a solution, made once more: for pictures, or to record them."""

from collections.abc import Callable, Sequence

from arena_robot.core.observation import Pixels
from arena_robot.skills.base import Solution, Subtask, SubtaskKind
from arena_robot.skills.confined.code import RewardCode
from arena_robot.skills.specs.goals import SkillTask
from arena_robot.trials.skills.executor import LiveScene, SubtaskOutcome, run_subtask
from arena_robot.trials.skills.search import RewardSearch
from arena_robot.trials.skills.view import StationView

PICTURE = (480, 270)


def replay(scene: LiveScene, steps: Sequence[Subtask], outcomes: Sequence[SubtaskOutcome],
           begins: Callable[[], None] = lambda: None) -> None:
    """
    Make the motions of the subtasks that have an outcome, then close the scene.

    What the search tried and dropped is not made. ``begins`` is called before every subtask.
    """
    try:
        for number, (step, outcome) in enumerate(zip(steps, outcomes, strict=False)):
            begins()
            scene.station.restore(scene.station.save())
            _one(scene, step, outcome, f'{number:016x}')
        scene.judged()
    finally:
        scene.close()


def _one(scene: LiveScene, step: Subtask, outcome: SubtaskOutcome, key: str) -> None:
    if step.kind is SubtaskKind.PRIMITIVE:
        run_subtask(scene, step, RewardSearch, key)
    elif outcome.motion is not None:
        view = StationView(scene.motions, scene.objects)
        RewardSearch(scene.motions, view, RewardCode(step.code)).again(outcome.motion)


class SkillFilm:
    """
    Makes a solution's motions with a camera.

    ``frames`` are (stamp in ns, RGB pixels), one per control step; ``begins`` the index of each
    subtask's first frame.
    """

    def __init__(self, task: SkillTask, solution: Solution, seed: int, camera: str = 'left',
                 size: tuple[int, int] = PICTURE) -> None:
        self.frames: list[tuple[int, Pixels]] = []
        self.begins: list[int] = []
        self._camera = camera
        self._scene = LiveScene(task, solution, seed, (camera,), size, self._take)

    def make(self, steps: Sequence[Subtask], outcomes: Sequence[SubtaskOutcome]) -> None:
        """Make the motions of the subtasks that have an outcome, then close the station."""
        self._take()
        replay(self._scene, steps, outcomes, lambda: self.begins.append(len(self.frames)))

    def _take(self) -> None:
        camera = self._scene.station.cameras[self._camera]
        self.frames.append((self._scene.station.clock.now_ns(), camera.frame(5.0).left.pixels))
