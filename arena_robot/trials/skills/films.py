"""Videos of executed solutions."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arena_robot.recording.episode.frames import rgb_frame, write_video
from arena_robot.skills.base import Solution
from arena_robot.skills.identity import solution_key
from arena_robot.skills.labels import TriedSolution
from arena_robot.skills.specs.goals import SkillTask
from arena_robot.trials.skills.executor import StationExecutor, SubtaskOutcome
from arena_robot.trials.skills.finding import FinderMaker
from arena_robot.trials.skills.replay import SkillFilm
from arena_robot.trials.skills.search import RewardSearch

RATE_HZ = 15.0


def write_film(path: Path, task: SkillTask, solution: Solution, seed: int,
               outcomes: Sequence[SubtaskOutcome]) -> list[float]:
    """Write the motions that were found as an MP4; return when each subtask begins, in s."""
    film = SkillFilm(task, solution, seed)
    film.make(solution.subtasks, outcomes)
    write_video(path, ((stamp, rgb_frame(pixels)) for stamp, pixels in film.frames), RATE_HZ)
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
    found: dict[str, dict[str, Any]] = {}
    try:
        for number, one in enumerate(tried, 1):
            key = solution_key(one.solution)
            if key not in found:
                found[key] = _film(folder, f'solution_{number}.mp4', task, one, seed, executor)
            progress(number, len(tried), task.spec.name)
    finally:
        executor.close()
    return [found[solution_key(one.solution)] for one in tried]


def _film(folder: Path, name: str, task: SkillTask, one: TriedSolution, seed: int,
          executor: StationExecutor) -> dict[str, Any]:
    again = executor.execute(task.spec, one.solution, seed)
    outcomes = executor.outcomes(task.spec, one.solution, seed)
    flags = [(e.claimed, e.oracle, [r.success for r in e.results])
             for e in (again, one.execution)]
    found = {'video': '', 'begins': [], 'differs': flags[0] != flags[1]}
    if outcomes:
        found |= {'video': name,
                  'begins': write_film(folder / name, task, one.solution, seed, outcomes)}
    return found
