"""What franka_ros2 says beside joint states: external torques, mode, errors, error recovery."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from sensor_msgs.msg import JointState

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import Floats, RobotMode
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import ThreadedActionClient, result, send_goal

NO_MESSAGES = ('franka_msgs is not installed here, so mode and errors of the robot are not known '
               'and it cannot be recovered from here; source the workspace of franka_ros2')
RECOVERY_S = 20.0    # Franka's own recovery takes some seconds
VENDORS = {mode.value: mode for mode in RobotMode}


class FrankaReports:
    """
    The topics of a franka_robot_state_broadcaster; ``broadcaster`` is its name, '' for none.

    The arm has so many ``joints``. Mode and errors need franka_msgs, which comes with franka_ros2;
    ``missing`` says so.
    """

    def __init__(self, node: Node, broadcaster: str, recovery: str, joints: int) -> None:
        self._node, self._broadcaster, self._recovery = node, broadcaster, recovery
        self.tau_ext: Floats = np.zeros(joints)
        self.mode: RobotMode | None = None
        self.errors: tuple[str, ...] = ()
        self.success_rate = 1.0
        self.missing = ''
        self._made: list[Callable[[], object]] = []
        self._action: Any = None

    def open(self) -> None:
        """Subscribe; franka_ros2 publishes best effort."""
        if not self._broadcaster:
            return
        self._subscribe(JointState, 'external_joint_torques', self._on_torques)
        kind = imported('franka_msgs.msg', 'FrankaRobotState')
        action = imported('franka_msgs.action', 'ErrorRecovery')
        if kind is None or action is None:
            self.missing = NO_MESSAGES
            self._node.get_logger().warning(NO_MESSAGES)
            return
        self._subscribe(kind, 'robot_state', self.on_state)
        client = ThreadedActionClient(self._node, action, self._recovery,
                                      callback_group=ReentrantCallbackGroup())
        self._action, self._goal = client, action.Goal
        self._made.append(client.destroy)

    def close(self) -> None:
        """Destroy what was made; may be called twice."""
        self._action = None
        while self._made:
            self._made.pop()()

    def on_state(self, message: Any) -> None:
        """Take a FrankaRobotState."""
        self.mode = VENDORS.get(int(message.robot_mode), RobotMode.OTHER)
        self.errors = (*names_of(message.current_errors),
                       *(() if self.mode is RobotMode.MOVE else
                         names_of(message.last_motion_errors)))
        self.success_rate = float(message.control_command_success_rate)

    def recover(self) -> None:
        """Have the robot recover from its error. Raises DriverError."""
        if self._action is None:
            return
        what = self._recovery
        handle = send_goal(self._action, self._goal(), RECOVERY_S, what)
        result(handle.get_result_async(), RECOVERY_S, what)
        if self.mode in (RobotMode.REFLEX, RobotMode.USER_STOPPED):
            raise DriverError(f'{what} ended and the robot is still in {self.mode.name}; release '
                              'the user stop, or free the robot by hand')

    def _subscribe(self, kind: type, topic: str, callback: Callable[[Any], None]) -> None:
        made = qos.subscription(self._node, kind, f'{self._broadcaster}/{topic}', callback,
                                qos.SENSOR)
        self._made.append(lambda: self._node.destroy_subscription(made))

    def _on_torques(self, message: JointState) -> None:
        if len(message.effort) == len(self.tau_ext):
            self.tau_ext = np.array(message.effort, dtype=np.float64)


def imported(module: str, name: str) -> Any:
    """Return a generated class of another package; None where that is not installed."""
    try:
        return vars(importlib.import_module(module)).get(name)
    except ImportError:
        return None


def names_of(errors: Any) -> tuple[str, ...]:
    """Return the names of the fields of franka_msgs' Errors that are set."""
    return tuple(name for name in errors.get_fields_and_field_types() if getattr(errors, name))
