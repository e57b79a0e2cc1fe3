"""What a worker process makes for itself to execute solutions."""

from arena_robot.skills.base import TaskSpec
from arena_robot.skills.specs.table import find_task
from arena_robot.trials.skills.executor import StationExecutor

EXECUTOR = 'simulated station, search over motions'


def station_executor(spec: TaskSpec) -> StationExecutor:
    """Return an executor of a task on the simulated station, with the default budget."""
    return StationExecutor(find_task(spec.name))
