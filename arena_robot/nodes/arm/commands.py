"""Command topics of the arm; every command goes through one GuardedArm."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from arena_msgs.msg import ArmDecision, PolicyAction
from arena_robot.core.action import Action, ActionSpace, Clamp, SafeCommand
from arena_robot.core.errors import DriverError, SafetyError
from arena_robot.core.observation import Floats
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.nodes.arm.trajectory import Trajectory, trajectory
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.part_node import CommandStamps, PartNode
from arena_robot.nodes.lib.part_params import ArmParams
from arena_robot.safety.filter import finite


class ArmCommands:
    """
    Subscribes to the command topics, counts accepted commands, and publishes what became of each.

    ``~/decision`` tells what became of a command, under the command's own stamp. After an invalid
    command (wrong length, NaN, unknown joint) the arm stops and holds; a command that is too old,
    or sent while halted, is only refused.
    """

    def __init__(self, node: PartNode[ArmParams], guard: GuardedArm, names: list[str],
                 base_frame: str) -> None:
        self.node, self.guard, self.names = node, guard, names
        self._base_frame = base_frame
        self.command_id = 0
        self.accepted_ns: int | None = None
        self.refused = 0
        self.refusal = ''
        self.clamps: tuple[Clamp, ...] = ()
        self.takeovers = 0
        self._stamps = CommandStamps(node)
        self._playing: tuple[Trajectory, int, float] | None = None
        self._lock = threading.Lock()
        self._decision = node.keep(qos.publisher(node, ArmDecision, '~/decision'))
        for kind, topic, handle in (
                (PolicyAction, '~/policy_action', self._on_action),
                (PolicyAction, '~/arm_action', self._on_action),
                (JointState, '~/target_joint', self._on_joints),
                (PoseStamped, '~/target_pose', self._on_pose),
                (JointTrajectory, '~/joint_trajectory', self._on_trajectory)):
            node.keep(qos.subscription(node, kind, topic, self._handler(topic, handle),
                                       qos.COMMAND))

    def play(self) -> None:
        """Send the current target of the running trajectory; called at the streaming rate."""
        with self._lock:
            if self._playing is None:
                return
            path, begin_ns, until_s = self._playing
            clock = self.node.timeline.part
            elapsed_s = (clock.steady_ns() - begin_ns) * 1e-9
            if elapsed_s < 0.0:
                return
            try:
                self._send(path.at(elapsed_s), clock.now_ns(), of_path=True)
            except (SafetyError, DriverError) as error:
                self._playing = None
                self._refuse('joint_trajectory', error)
            if elapsed_s > until_s:
                self._playing = None

    @property
    def playing(self) -> bool:
        """Whether a trajectory is being sent."""
        return self._playing is not None

    def drop(self, takeover: int | None = None) -> bool:
        """
        Drop a running trajectory; ``takeovers`` changes for those who wait for a motion.

        With ``takeover``, only while that is the takeover number; tell whether it was.
        """
        with self._lock:
            if takeover is not None and takeover != self.takeovers:
                return False
            self._take_over()
            return True

    def run(self, path: Trajectory, begin_ns: int, settle_s: float = 0.0,
            expected: int | None = None) -> int:
        """
        Follow a trajectory from ``begin_ns`` (part's time); return its takeover number.

        Its last point is sent for another ``settle_s``. Raises SafetyError when the takeover
        number is not ``expected``: a stop or another command came first.
        """
        with self._lock:
            if expected not in (None, self.takeovers):
                raise SafetyError('a stop or another command came while the path was checked')
            self.guard.watchdog.open_or_raise()
            clock = self.node.timeline.part
            self.guard.watchdog.follow(min(begin_ns, clock.now_ns()))
            steady_ns = begin_ns + clock.steady_ns() - clock.now_ns()
            self._playing = (path, steady_ns, path.duration_s + settle_s)
            self.takeovers += 1
            return self.takeovers

    # -- topics ------------------------------------------------------------------------------

    def _handler(self, topic: str,
                 handle: Callable[[Any], SafeCommand | None]) -> Callable[[Any], None]:
        def receive(message: Any) -> None:
            if not self.node.active:
                return
            stamp, base = message.header.stamp, self._base_frame
            try:
                if (taken := handle(message)) is not None:
                    self._decision.publish(convert.decision_message(
                        taken, stamp, base, self.names))
            except (SafetyError, DriverError) as error:
                if isinstance(error, _MeaninglessError):
                    self.drop()
                    self.guard.stop()
                self._refuse(topic, error)
                self._decision.publish(convert.decision_message(
                    error, stamp, base, self.names))
        return receive

    def _on_action(self, message: PolicyAction) -> SafeCommand:
        with _meaning():
            action = convert.action(message)
            finite(action.values, action.space.size(len(self.names)),
                   f'{message.action_space} action')
        taken = self._take(action, message.header.stamp)
        self.command_id = message.command_id
        return taken

    def _on_pose(self, message: PoseStamped) -> SafeCommand:
        frame, base = message.header.frame_id, self._base_frame
        with _meaning():
            if frame not in ('', base):
                raise SafetyError(f"target_pose is in frame '{frame}', wanted is '{base}'")
            pose = finite(convert.pose_values(message.pose), 6, 'target pose')
        action = Action(np.append(pose, 0.0), ActionSpace.CARTESIAN_POSITION)
        return self._take(action, message.header.stamp)

    def _on_joints(self, message: JointState) -> SafeCommand:
        with _meaning():
            q = finite(convert.in_order(message.position, message.name, self.names),
                       len(self.names), 'target_joint')
        return self._take(q, message.header.stamp)

    def _take(self, wanted: Action | Floats, stamp: Time) -> SafeCommand:
        stamp_ns = self.part_stamp(stamp)
        with self._lock:
            taken = self._send(wanted, stamp_ns)
            self._take_over()
        return taken

    def _on_trajectory(self, message: JointTrajectory) -> SafeCommand | None:
        if not message.points:
            self.drop()
            self.guard.stop()
            return None
        state = self.guard.state()
        with _meaning():
            path = trajectory(message, self.names, state.q_desired)
        begin_ns = self.part_stamp(message.header.stamp)
        age_s = (self.node.timeline.part.now_ns() - begin_ns) * 1e-9
        if age_s > self.node.params.max_command_age:
            raise SafetyError(f'trajectory should have begun {age_s:.3f} s ago: refused')
        if path.duration_s > 0.0:
            self.run(path, begin_ns)
            return None
        with self._lock:
            taken = self._send(path.points[0], begin_ns)
            self._take_over()
        return taken

    # -- inside ------------------------------------------------------------------------------

    def part_stamp(self, stamp: Time) -> int:
        """Return the part's time of a stamp. Raises SafetyError, see CommandStamps."""
        return self._stamps.of(stamp)

    def _take_over(self) -> None:
        self._playing = None
        self.takeovers += 1

    def _send(self, wanted: Action | Floats, stamp_ns: int, of_path: bool = False) -> SafeCommand:
        taken = self.guard.decide(wanted, stamp_ns, of_path)
        self.clamps = taken.clamps
        self.accepted_ns = self.node.timeline.part.steady_ns()
        return taken

    def _refuse(self, topic: str, error: Exception) -> None:
        self.refused += 1
        self.refusal = f'{topic}: {error}'
        self.node.get_logger().warning(f'refused {self.refusal}', throttle_duration_sec=1.0)


class _MeaninglessError(SafetyError):
    """An invalid command."""


class _meaning:  # noqa: N801
    """Convert a SafetyError inside the block to _MeaninglessError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, SafetyError):
            raise _MeaninglessError(str(error)) from error
