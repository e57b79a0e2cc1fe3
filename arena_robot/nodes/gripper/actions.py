"""
The gripper's action: GripperCommand as in Humble and CRISP, or Jazzy's ParallelGripperCommand.

control_msgs has both; where it is not installed, arena_msgs has the first, with the same fields.
"""

import importlib
from typing import Any

from sensor_msgs.msg import JointState

from arena_msgs.action import GripperCommand
from arena_robot.core.errors import ConfigError, SafetyError

SINGLE, PARALLEL = 'GripperCommand', 'ParallelGripperCommand'
KINDS = (SINGLE, PARALLEL)


def action_type(name: str) -> Any:
    """Return the type of the action; ConfigError where control_msgs is needed and missing."""
    try:
        return getattr(importlib.import_module('control_msgs.action'), name)
    except (ImportError, AttributeError) as error:
        if name == SINGLE:
            return GripperCommand
        raise ConfigError(f'gripper_action: {name} needs a control_msgs that has it, found '
                          f'{error}; install control_msgs, or use {SINGLE}') from error


class GripperAction:
    """Requests and answers of one of the two actions; ``joint`` is the finger joint's name."""

    def __init__(self, name: str, joint: str) -> None:
        self.type = action_type(name)
        self._parallel, self._joint = name == PARALLEL, joint

    def asked(self, goal: Any) -> tuple[float, float]:
        """Return position (rad) and effort (N, 0: as set) of a goal; SafetyError without one."""
        if not self._parallel:
            return float(goal.command.position), float(goal.command.max_effort)
        command: JointState = goal.command
        names = list(command.name) or [self._joint]
        if names != [self._joint] or len(command.position) != 1:
            raise SafetyError(f'the goal must have one position, of {self._joint}; found '
                              f'{len(command.position)} of {", ".join(names)}')
        return float(command.position[0]), float(command.effort[0]) if command.effort else 0.0

    def feedback(self, position: float, effort: float, stalled: bool, reached: bool) -> Any:
        """Return the feedback of a running goal."""
        if self._parallel:
            return self.type.Feedback(state=self._state(position, effort))
        return self.type.Feedback(position=position, effort=effort, stalled=stalled,
                                  reached_goal=reached)

    def result(self, position: float, effort: float, stalled: bool, reached: bool) -> Any:
        """Return the result of a goal."""
        if self._parallel:
            return self.type.Result(state=self._state(position, effort), stalled=stalled,
                                    reached_goal=reached)
        return self.type.Result(position=position, effort=effort, stalled=stalled,
                                reached_goal=reached)

    def _state(self, position: float, effort: float) -> JointState:
        return JointState(name=[self._joint], position=[position], effort=[effort])
