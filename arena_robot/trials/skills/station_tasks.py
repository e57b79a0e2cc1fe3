"""
Skill tasks as tasks of the simulated station, for sessions and rates of policies.

Each has the name ``arena_robot.trials.skills.station_tasks:open_drawer``, with the names that
`arena skill spec` lists.
"""

import functools
from typing import ClassVar

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.sim.station import task_generator
from arena_robot.drivers.sim.truth import SceneLinks, SceneTruth
from arena_robot.skills.base import Solution
from arena_robot.skills.specs.table import find_task
from arena_robot.trials.skills.scenes import SkillScene, scene_setup


class StationSkillTask(SkillScene):
    """A skill task with the scene that a seed of the station draws."""

    slug: ClassVar[str]

    def __init__(self, rng: np.random.Generator) -> None:
        task = find_task(self.slug)
        bare = Solution(task.spec.name, {}, ())
        super().__init__(task, scene_setup(task.spec, bare, _drawn(rng)))

    def stage(self, truth: SceneTruth) -> float:
        """Return 0; notes the buttons that are pressed now."""
        self.watch(SceneLinks(truth.world))
        return 0.0


def scene_seed(station_seed: int) -> int:
    """Return the seed of :func:`scene_setup` whose scene a station's seed has."""
    return _drawn(task_generator(station_seed))


def address(slug: str) -> str:
    """Return the name of a skill task at the station."""
    return f'{__name__}:{slug}'


def _drawn(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 31))


def __getattr__(name: str) -> type[StationSkillTask]:
    """Return the task of a skill by the name that `arena skill spec` lists."""
    try:
        find_task(name)
    except ConfigError as error:
        raise AttributeError(str(error)) from error
    return _task_of(name)


@functools.cache
def _task_of(slug: str) -> type[StationSkillTask]:
    return type(slug, (StationSkillTask,), {'slug': slug, '__module__': __name__})
