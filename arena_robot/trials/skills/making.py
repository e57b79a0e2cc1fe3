"""What `arena skill` and its worker processes make to execute solutions."""

from pathlib import Path

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.skills.base import Solution, TaskSpec
from arena_robot.skills.robogen import read_task_folder
from arena_robot.skills.specs.files import read_solution
from arena_robot.skills.specs.goals import SkillTask
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import find_task
from arena_robot.trials.skills.executor import StationExecutor
from arena_robot.trials.skills.finding import FinderMaker
from arena_robot.trials.skills.search import RewardSearch

SEARCH, SAC = 'search', 'sac'
# By learner: what its results are said to come from, also in dataset files.
EXECUTORS = {SEARCH: 'simulated station, search over motions',
             SAC: 'simulated station, soft actor-critic'}


def motion_finder(learner: str) -> FinderMaker:
    """Return what finds motions; ConfigError where the packages of a learner are missing."""
    if learner == SEARCH:
        return RewardSearch
    if learner == SAC:
        from arena_robot.trials.skills.sac import sac_learner
        return sac_learner()
    raise ConfigError(f"no learner is called '{learner}'.{nearest(learner, EXECUTORS)}")


def station_executor(spec: TaskSpec, learner: str = SEARCH) -> StationExecutor:
    """Return an executor of a task on the simulated station, with the default budget."""
    return StationExecutor(find_task(spec.name), motion_finder(learner))


def learner_of(executor: str) -> str:
    """Return the learner of a dataset's executor; the search when it is another one's."""
    return next((name for name, told in EXECUTORS.items() if told == executor), SEARCH)


def solution_of(task: SkillTask, path: Path | None) -> Solution:
    """Return the solution in a file or a task folder of RoboGen; None: the task's reference."""
    if path is None:
        return reference_solution(task)
    solution = (read_task_folder if path.is_dir() else read_solution)(path)
    if solution.task != task.spec.name:
        raise ConfigError(f"{path} solves '{solution.task}', not '{task.spec.name}'")
    return solution
