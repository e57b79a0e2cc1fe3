"""
Arm and Gripper interfaces over the topics of arm_node and gripper_node.

They implement drivers/base.py with the stamps of the messages, so a stale topic is a StaleData
error and not an old reading. Methods can be called from any thread except the executor's.
"""

import logging
import threading
from collections import deque
from concurrent import futures
from typing import Any

from rclpy.node import Node
from sensor_msgs.msg import JointState

from arena_msgs.action import MoveToJoints
from arena_msgs.msg import ArmDecision, GripperTarget, PolicyAction
from arena_msgs.msg import ArmState as ArmStateMessage
from arena_msgs.msg import GripperState as GripperStateMessage
from arena_robot.core.action import Action, ArmCommand, GripperCommand, SafeCommand
from arena_robot.core.errors import ArenaError, DriverError, LateCommand, ReadTimeout, StaleData
from arena_robot.core.observation import ArmState, Floats, GripperState, RobotMode
from arena_robot.drivers.base import ArmDescription
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import ThreadedActionClient, parameters_of, send_goal
from arena_robot.nodes.lib.part_params import home_of
from arena_robot.nodes.remote.camera import RemoteCamera
from arena_robot.nodes.remote.part import Newest, RemotePart
from arena_robot.safety.filter import clipped, finite
from arena_robot.safety.limits import robot_of

log = logging.getLogger(__name__)
CLOSE_S = 0.5     # to hold at the end, also of an arm_node that is gone
ANSWER_S = 0.5    # of the node to a single target; it takes a few milliseconds
RECOVERY_S, ACTIVATION_S = 25.0, 15.0    # longer than any driver takes
__all__ = ['RemoteArm', 'RemoteCamera', 'RemoteGripper']


class RemoteArm(RemotePart):
    """Client of an arm_node; see :class:`arena_robot.drivers.base.ActingArm`."""

    def __init__(self, node: Node, name: str = 'arm_node', timeout_s: float = 5.0) -> None:
        super().__init__(node, name, timeout_s)
        self._newest: Newest[ArmStateMessage] = Newest(
            f'state of {name}', self._clock, lambda m: convert.stamp_of(m.header.stamp))
        self._failure = ''
        self._stamp_ns = self._actions = 0
        # Stamp and answer of each, oldest first. Simulated time gives several the same stamp.
        self._unanswered: deque[tuple[int, futures.Future[SafeCommand]]] = deque()
        self._unanswered_lock = threading.Lock()
        self.frame = ''     # of the poses, as the node's messages say; '' before the first

    def open(self) -> None:
        """Connect to the node and wait for the first state."""
        self._subscribe(ArmStateMessage, 'arm_state', self._on_state)
        self._subscribe(ArmDecision, 'decision', self._on_decision, qos.STREAM)
        self._target = self._publisher(JointState, 'target_joint')
        self._action = self._publisher(PolicyAction, 'arm_action')
        self._offers('hold', 'session_stop', 'session_resume', 'error_recovery')
        self._home = ThreadedActionClient(self._node, MoveToJoints, f'{self._name}/go_home',
                                          callback_group=self._group)
        self._made.append(self._home.destroy)
        self._first(self._newest)
        self._matched(self._target)
        self._matched(self._action)
        super().open()

    def close(self) -> None:
        """Stop the arm if it can be reached, and disconnect."""
        if self._open:
            try:
                self._call('hold', CLOSE_S)
            except DriverError as error:
                log.warning('the arm did not accept hold: %s', error)
        super().close()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state."""
        self._require_open(self._name)
        try:
            return convert.arm_state(self._newest.get(max_age_s))
        except StaleData as error:
            raise StaleData(self._with_failure(error)) from error

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next new state."""
        self._require_open(self._name)
        try:
            return convert.arm_state(self._newest.wait(timeout_s))
        except ReadTimeout as error:
            raise ReadTimeout(self._with_failure(error)) from error

    def _with_failure(self, error: Exception) -> str:
        return f'{self._failure} ({error})' if self._failure else str(error)

    def command(self, command: ArmCommand) -> ArmCommand:
        """Send a target; return what the node's driver accepted, after some milliseconds."""
        self._require_open(self._name)
        q = finite(command.q, len(self._ready().q), 'arm target')
        answer = self._expect(command.stamp_ns)
        self._target.publish(convert.joint_state(command.stamp_ns, '', (), q))
        try:
            return ArmCommand(answer.result(ANSWER_S).q, command.stamp_ns)
        except futures.TimeoutError as error:
            raise DriverError(f'{self._name} has not said within {ANSWER_S:g} s what became of a '
                              'target; is it active?') from error

    def description(self) -> ArmDescription:
        """
        Ask the node for its parameters; DriverError when it does not answer.

        ConfigError when it is an arm that this machine has no file of.
        """
        robot_type, backend, fake, reset = parameters_of(
            self._node, self._name, ('robot_type', 'backend', 'use_fake_hardware', 'reset_joints'),
            self._timeout_s)
        robot = robot_of(robot_type.string_value)
        return ArmDescription(
            robot, 'sim' if fake.bool_value else backend.string_value,
            home_of(robot, tuple(reset.double_array_value)), robot_type.string_value)

    def act(self, action: Action, stamp_ns: int) -> 'futures.Future[SafeCommand]':
        """Send an action; the future has what the node's driver accepted."""
        self._require_open(self._name)
        self._ready()
        answer = self._expect(stamp_ns)
        self._actions += 1
        self._action.publish(convert.action_message(action, stamp_ns, self.frame, self._actions))
        return answer

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a motion as soon as the node has accepted it."""
        self._require_open(self._name)
        goal_q = finite(q, len(self._ready().q), 'goal')
        goal = MoveToJoints.Goal(q=convert.doubles(goal_q), duration_s=float(duration_s or 0.0))
        what = f'{self._name}/go_home'
        known = threading.Event()  # by its first feedback or its early end
        takes_s = [0.0]

        def hear(message: Any) -> None:
            takes_s[0] = message.feedback.duration_s
            known.set()
        handle = send_goal(self._home, goal, self._timeout_s, what, feedback=hear,
                           find_s=self._timeout_s)
        end = handle.get_result_async()
        end.add_done_callback(lambda _: known.set())
        if not known.wait(self._timeout_s):
            raise DriverError(f'{what} does not report that the arm moves')
        if end.done() and not end.result().result.success:
            raise DriverError(f'{what}: {end.result().result.message}')
        return takes_s[0]

    def stop(self) -> None:
        """Come to rest and hold; newer commands are accepted. Nothing while not open."""
        if self._open:
            self._call('hold')
            self._settled(self._newest)

    def halt(self) -> None:
        """Stop, and refuse every command until :meth:`resume`. Nothing while not open."""
        if self._open:
            self._call('session_stop')
            self._settled(self._newest)

    def resume(self) -> None:
        """Release :meth:`halt`; a lab's own ``~/stop`` stays in force."""
        self._call('session_resume')

    def recover(self) -> None:
        """Clear a reflex or user stop."""
        self._call('error_recovery', RECOVERY_S)
        self._settled(self._newest)

    def _on_state(self, message: ArmStateMessage) -> None:
        """Take a state; the last one again, with errors, says why no newer one comes."""
        stamp_ns = convert.stamp_of(message.header.stamp)
        if stamp_ns == self._stamp_ns and message.errors:
            self._failure = f"{self._name}: {'; '.join(message.errors)}"
            return
        self._stamp_ns, self._failure = stamp_ns, ''
        self.frame = message.header.frame_id
        self._newest.put(message)

    def _expect(self, stamp_ns: int) -> 'futures.Future[SafeCommand]':
        """Return a future for what becomes of the command stamped ``stamp_ns``."""
        answer: futures.Future[SafeCommand] = futures.Future()
        with self._unanswered_lock:
            self._unanswered.append((stamp_ns, answer))
        return answer

    def _on_decision(self, message: ArmDecision) -> None:
        """Answer a command; one that was sent before it and has no answer did not arrive."""
        stamp_ns = convert.stamp_of(message.header.stamp)
        answers: list[tuple[futures.Future[SafeCommand], SafeCommand | ArenaError]] = []
        with self._unanswered_lock:
            if all(stamp != stamp_ns for stamp, _ in self._unanswered):
                return    # somebody else's
            while self._unanswered:
                stamp, answer = self._unanswered.popleft()
                if stamp == stamp_ns:
                    answers.append((answer, convert.decision(message)))
                    break
                answers.append((answer, LateCommand(f'{self._name} did not get this command')))
        for answer, decided in answers:
            if isinstance(decided, SafeCommand):
                answer.set_result(decided)
            else:
                answer.set_exception(decided)

    def _ready(self) -> ArmState:
        """Return the state; DriverError while the arm must be recovered or is not followed."""
        state = self.state(1.0)
        if state.mode is RobotMode.OTHER and state.errors:
            raise DriverError('; '.join(state.errors))
        if state.recovery_required:
            raise DriverError(f"the arm is in {state.mode.name} ({', '.join(state.errors)}); "
                              'recover it first')
        return state


class RemoteGripper(RemotePart):
    """Client of a gripper_node; see :class:`arena_robot.drivers.base.Gripper`."""

    def __init__(self, node: Node, name: str = 'gripper_node', timeout_s: float = 5.0) -> None:
        super().__init__(node, name, timeout_s)
        self._newest: Newest[GripperStateMessage] = Newest(
            f'state of {name}', self._clock, lambda m: convert.stamp_of(m.header.stamp))

    def open(self) -> None:
        """Connect to the node and wait for the first state."""
        self._subscribe(GripperStateMessage, 'gripper_state', self._newest.put)
        self._target = self._publisher(GripperTarget, 'target')
        self._offers('stop', 'reactivate_gripper')
        self._first(self._newest)
        self._matched(self._target)
        super().open()

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest state."""
        self._require_open(self._name)
        return convert.gripper_state(self._newest.get(max_age_s))

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return the next new state."""
        self._require_open(self._name)
        return convert.gripper_state(self._newest.wait(timeout_s))

    def command(self, command: GripperCommand) -> GripperCommand:
        """Send a position, speed and force, each clipped to 0..1; stamp 0 is the current time."""
        self._require_open(self._name)
        sent = clipped(command)
        fault = self._newest.get(1.0).fault
        if fault:
            raise DriverError(f'gripper fault {fault}; activate() it again')
        self._target.publish(GripperTarget(
            header=convert.header(command.stamp_ns or self._clock.now_ns(), ''),
            position=sent.position, speed=sent.speed, force=sent.force))
        return sent

    def stop(self) -> None:
        """Stop the fingers. Nothing while not open."""
        if self._open:
            self._call('stop')
            self._settled(self._newest)

    def activate(self) -> None:
        """Activate the gripper again."""
        self._call('reactivate_gripper', ACTIVATION_S)
        self._settled(self._newest)
