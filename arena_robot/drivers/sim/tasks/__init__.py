"""The tasks by name; installed packages add theirs in the entry point group."""

import inspect
from typing import cast

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import Table, broken_members
from arena_robot.drivers.sim.tasks.base import Task
from arena_robot.drivers.sim.tasks.fixed import CloseBox, CloseDrawer, OpenDrawer, PressButton
from arena_robot.drivers.sim.tasks.move import KnockOver, SlideBook, StayStill, WipeTable
from arena_robot.drivers.sim.tasks.pick import CubeInBowl, CupOnPlate, LiftCube
from arena_robot.drivers.sim.tasks.sets import FindCube, SortCubes, StackBlocks


def _checked(candidate: object, name: str) -> type[Task]:
    if not inspect.isclass(candidate):
        raise ConfigError(f"the task '{name}' is not a class, found {candidate!r}")
    task = cast('type[Task]', candidate)
    try:
        instance = task(np.random.default_rng(0))
    except TypeError as error:
        raise ConfigError(f"the task '{name}' cannot be made with a random generator: "
                          f'{error}') from error
    if broken := broken_members(instance, Task):
        raise ConfigError(f"the task '{name}' does not keep the protocol Task of "
                          f'arena_robot.drivers.sim.tasks.base; it lacks {", ".join(broken)}')
    return task


TASKS: Table[type[Task]] = Table('task', 'arena_robot.tasks', {task.name: task for task in (
    LiftCube, CubeInBowl, CupOnPlate, StackBlocks, SortCubes, FindCube, OpenDrawer, CloseDrawer,
    CloseBox, PressButton, SlideBook, KnockOver, WipeTable, StayStill)}, _checked)
