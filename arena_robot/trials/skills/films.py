"""Motions that were found for a solution, made again: as videos, or to record them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arena_robot.core.observation import Pixels
from arena_robot.recording.episode.frames import rgb_frame, write_video
from arena_robot.skills.base import Solution, Subtask, SubtaskKind
from arena_robot.skills.confined.code import RewardCode
from arena_robot.skills.labelling import TriedSolution, solution_key
from arena_robot.skills.specs.tasks import SkillTask
from arena_robot.trials.skills.executor import (
    LiveScene,
    StationExecutor,
    SubtaskOutcome,
    run_subtask,
)
from arena_robot.trials.skills.search import FinderMaker, RewardSearch
from arena_robot.trials.skills.view import StationView

PICTURE = (480, 270)


def write_film(path: Path, task: SkillTask, solution: Solution, seed: int,
               outcomes: Sequence[SubtaskOutcome]) -> list[float]:
    """Write the motions that were found as an MP4; return when each subtask begins, in s."""
    film = SkillFilm(task, solution, seed)
    film.make(solution.subtasks, outcomes)
    write_video(path, ((stamp, rgb_frame(pixels)) for stamp, pixels in film.frames))
    first = film.frames[0][0]
    return [round((film.frames[min(k, len(film.frames) - 1)][0] - first) * 1e-9, 2)
            for k in film.begins]


def write_films(folder: Path, task: SkillTask, tried: Sequence[TriedSolution], seed: int,
                progress: Callable[[int, int, str], None],
                finder: FinderMaker = RewardSearch) -> list[dict[str, Any]]:
    """
    Execute solutions of a dataset again and film them; equal ones once.

    Return for each the ``video`` in ``folder`` (none when nothing could be executed), when each
    subtask ``begins`` (s), and whether the result ``differs`` from the dataset's.
    """
    executor = StationExecutor(task, finder)
    films: dict[str, dict[str, Any]] = {}
    try:
        for number, trial in enumerate(tried, 1):
            key = solution_key(trial.solution)
            if key not in films:
                films[key] = _film(folder, f'solution_{number}.mp4', task, trial, seed, executor)
            progress(number, len(tried), task.spec.name)
    finally:
        executor.close()
    return [films[solution_key(trial.solution)] for trial in tried]


def _film(folder: Path, name: str, task: SkillTask, trial: TriedSolution, seed: int,
          executor: StationExecutor) -> dict[str, Any]:
    repeated = executor.execute(task.spec, trial.solution, seed)
    outcomes = executor.outcomes(task.spec, trial.solution, seed)
    flags = [(e.claimed, e.oracle, [r.success for r in e.results])
             for e in (repeated, trial.execution)]
    film_values = {'video': '', 'begins': [], 'differs': flags[0] != flags[1]}
    if outcomes:
        film_values |= {'video': name,
                        'begins': write_film(folder / name, task, trial.solution, seed, outcomes)}
    return film_values


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
            _replay_step(scene, step, outcome, f'{number:016x}')
        scene.judged()
    finally:
        scene.close()


def _replay_step(scene: LiveScene, step: Subtask, outcome: SubtaskOutcome, key: str) -> None:
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
