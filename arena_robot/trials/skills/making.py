"""What `arena skill` and its worker processes make to execute solutions."""

from pathlib import Path

from arena_robot.core.errors import ConfigError
from arena_robot.skills.base import Solution, TaskSpec
from arena_robot.skills.robogen import read_task_folder
from arena_robot.skills.specs.files import read_solution
from arena_robot.skills.specs.goals import SkillTask
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import find_task
from arena_robot.trials.skills.executor import StationExecutor

EXECUTOR = 'simulated station, search over motions'


def station_executor(spec: TaskSpec) -> StationExecutor:
    """Return an executor of a task on the simulated station, with the default budget."""
    return StationExecutor(find_task(spec.name))


def solution_of(task: SkillTask, path: Path | None) -> Solution:
    """Return the solution in a file or a task folder of RoboGen; None: the task's reference."""
    if path is None:
        return reference_solution(task)
    solution = (read_task_folder if path.is_dir() else read_solution)(path)
    if solution.task != task.spec.name:
        raise ConfigError(f"{path} solves '{solution.task}', not '{task.spec.name}'")
    return solution
