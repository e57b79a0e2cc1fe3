"""The tasks by name."""

from arena_robot.drivers.sim.tasks.base import Task
from arena_robot.drivers.sim.tasks.fixed import CloseBox, CloseDrawer, OpenDrawer, PressButton
from arena_robot.drivers.sim.tasks.move import KnockOver, SlideBook, StayStill, WipeTable
from arena_robot.drivers.sim.tasks.pick import CubeInBowl, CupOnPlate, LiftCube
from arena_robot.drivers.sim.tasks.sets import FindCube, SortCubes, StackBlocks

TASKS: dict[str, type[Task]] = {task.name: task for task in (
    LiftCube, CubeInBowl, CupOnPlate, StackBlocks, SortCubes, FindCube, OpenDrawer, CloseDrawer,
    CloseBox, PressButton, SlideBook, KnockOver, WipeTable, StayStill)}
