"""Desk interface over the services and topics of a session node; audits of an audit_node."""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Empty, Float64, String
from std_srvs.srv import Trigger

from arena_msgs.action import RunEpisode
from arena_msgs.msg import ArmState, EpisodeInfo, SessionState, StepRecord
from arena_msgs.srv import (
    CloseSession,
    ListSessions,
    OpenSession,
    SessionCommand,
    SubmitFeedback,
    TakeControl,
)
from arena_robot.core.episode import Slot
from arena_robot.core.errors import NotConnected, SessionError
from arena_robot.core.observation import Floats
from arena_robot.core.verdict import Extras, Plain, Verdict
from arena_robot.drivers.part import Opened
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import (
    LATE_S,
    ServiceClients,
    ThreadedActionClient,
    parameters_of,
    send_goal,
)
from arena_robot.nodes.lib.convert import stamp_of
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.session_messages import desk_state, draft_request, feedback_message
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.pictures import Pictures, session_views
from arena_robot.session.evaluator.desk import Button, DeskState, RunView, always
from arena_robot.session.protocol.states import State

FIND_S = 5.0        # until the session node and its services are found
QUICK_S = 10.0      # for an answer that needs no motion
SLOW_S = 60.0       # for an answer that waits for the arm, the cameras or the server
PATIENCE_S = 3.0    # a rollout that nobody has watched for so long is stopped
GONE_S = 10.0       # a session node that is restarted is back before
WATCH_S = 0.25      # how often a page tells that it watches, and looks whether the node lives
GRAPH_LOOK_S = 0.5    # between two looks for the node in the ROS graph
SILENT_S = 1.25     # five beats; the graph shows a killed node for 20 s more
SILENT = ('The session node does not answer. The arm stops without it; until it rests, keep a '
          'hand on the hardware stop. The session is continued once the node is back.')
SLOW = (Button.PHOTOGRAPH, Button.PREPARE_RESET, Button.CONFIRM_RESET, Button.CHECK, Button.RETRY,
        Button.RECOVER, Button.ACTIVATE_GRIPPER)
COUNTS = {Button.INVALIDATE: False, Button.REVALIDATE: True}  # whether the session counts then
SERVICES = {'open_session': OpenSession, 'submit_feedback': SubmitFeedback,
            'close_session': CloseSession, 'command': SessionCommand, 'e_stop': Trigger,
            'take_control': TakeControl, 'list_sessions': ListSessions}
log = logging.getLogger(__name__)


class RemoteDesk(Opened):
    """
    Implements :class:`arena_robot.session.evaluator.desk.Desk` over ROS.

    Use it in a ``with`` block. ``patience_s`` is the timeout of finding the node ``session``;
    ``ends_then`` is Spin's, for a process that ends after it.
    """

    def __init__(self, session: str = 'session_node', namespace: str = '',
                 patience_s: float = FIND_S, ends_then: bool = False) -> None:
        self._session = session
        self._namespace = namespace
        self._views: dict[str, str] = {}
        # By the session node's parameters.
        self._told: tuple[str, Extras, str | None] | None = None
        self._patience_s = patience_s
        self._spin = Spin(ends_then=ends_then)
        self._token = ''
        self._changed = threading.Condition()
        self._state, self._known = DeskState(), False
        self._run: RunView | None = None
        self._first_ns = 0
        self._joints: Floats | None = None
        self._pictures = Pictures(lambda: self._state.state.running)
        self.oracle: dict[str, float | str] = {}
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None

    def open(self) -> None:
        """Find the session node; NotConnected when it does not answer in time."""
        self._spin.__enter__()
        node = Listening(f'desk_{uuid.uuid4().hex[:8]}', context=self._spin.context,
                         namespace=self._namespace or None)
        self._node = node
        self._presence = Presence(node, self._session)
        self._services = ServiceClients(node, self._session, SERVICES, find_s=FIND_S,
                                        error=SessionError, restarts=self._presence.restarts)
        self._action = ThreadedActionClient(node, RunEpisode, f'{self._session}/run_episode',
                                    callback_group=ReentrantCallbackGroup())
        self._watching = qos.publisher(node, Empty, f'{self._session}/watching')
        self.hear(SessionState, f'{self._session}/state', self._on_state, qos.LATCHED)
        self.hear(EpisodeInfo, f'{self._session}/episode_info', self._on_episode, qos.LATCHED)
        self.hear(StepRecord, f'{self._session}/step', self._on_step)
        self._spin.add(node, threads=1)
        with self._changed:
            if not self._changed.wait_for(lambda: self._known, self._patience_s):
                self.close()
                raise NotConnected(f"no session node '{self._session}' answers; start one in this "
                                   'ROS domain and namespace: `arena station --session`')

    def close(self) -> None:
        """Release control and close ROS."""
        self._over.set()
        if self._watcher is not None:
            self._watcher.join(1.0)
        if self._token and not self._presence.gone_s():
            with suppress(SessionError):    # it ends as well
                self.release()
        self._spin.close()

    def state(self) -> DeskState:
        """Return the newest state. Raises NotConnected once the session node has ended."""
        if self._presence.gone_s() > GONE_S:
            raise NotConnected(f"the session node '{self._session}' has ended; start it again: "
                               '`arena station --session`. The session is continued')
        return self._presence.with_notice(self._state)

    def wait_change(self, seen: DeskState, timeout_s: float) -> DeskState:
        """Return the state once it is not ``seen`` any more, or after ``timeout_s``."""
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while self.state() == seen and (left_s := end_s - time.monotonic()) > 0.0:
                self._changed.wait(min(left_s, WATCH_S))    # silence wakes nobody
            return self.state()

    def running(self) -> RunView | None:
        """Return the state of the running rollout, None when none runs."""
        return self._run if self._state.state.running else None

    def today(self) -> list[DeskState]:
        """Return today's sessions, newest first."""
        reply = self._services.call('list_sessions', ListSessions.Request(), QUICK_S)
        return [desk_state(message) for message in reply.sessions]

    def watch_views(self) -> None:
        """Receive live images and start photographs of the session's cameras from now on."""
        self._views, *_ = self._parameters()
        for name, topic in self._views.items():
            live, start = self._pictures.live(name), self._pictures.start(name)
            self.hear(CompressedImage, f'{topic}/compressed', live, qos.SENSOR)
            self.hear(CompressedImage, f'{self._session}/reset_reference/{name}', start,
                      qos.LATCHED)

    def watch_arm(self) -> None:
        """Receive the arm's measured joints from now on; the session node names its arm node."""
        [arm] = parameters_of(self._node, self._session, ('arm',), self._patience_s, SessionError)
        self.hear(ArmState, f'{arm.string_value}/arm_state', self._on_arm, qos.SENSOR)

    def joints(self) -> Floats | None:
        """Return the measured joints (7,) rad; None before the first."""
        return self._joints

    def _on_arm(self, message: ArmState) -> None:
        self._joints = np.asarray(message.q, np.float64)

    def watch_oracle(self, sim: str = 'sim_station') -> None:
        """
        Receive the simulator's progress and instruction, for scripted evaluators.

        Raises NotConnected when no simulator publishes them.
        """
        self.hear(Float64, f'{sim}/progress', lambda m: self.oracle.update(progress=m.data))
        self.hear(String, f'{sim}/instruction',
                  lambda m: self.oracle.update(instruction=m.data), qos.LATCHED)
        deadline_s = time.monotonic() + FIND_S
        while len(self.oracle) < 2:
            if time.monotonic() > deadline_s:
                raise NotConnected(f"'{sim}' publishes no progress: a scripted evaluator needs "
                                   'the simulated station')
            time.sleep(0.05)

    def views(self) -> tuple[str, ...]:
        """Return the views that can be shown."""
        return tuple(self._views)

    def site(self) -> str | None:
        """Return the address of the server's site, '' where nobody says; None: no server."""
        return (self._told or self._parameters()[1:])[2]

    def consent(self) -> str:
        """Return what the station tells people in the pictures; '' for nothing."""
        return (self._told or self._parameters()[1:])[0]

    def extras(self) -> Extras:
        """Return which optional fields the station asks for."""
        return (self._told or self._parameters()[1:])[1]

    def _parameters(self) -> tuple[dict[str, str], str, Extras, str | None]:
        found = session_views(self._node, self._session, self._patience_s)
        self._told = found[1:]
        return found

    def frame(self, view: str) -> bytes | None:
        """Return the newest image of a view as a JPEG; None before the first."""
        return self._pictures.frame(view)

    def reference(self, view: str) -> bytes | None:
        """Return the start photograph of a view as a JPEG; None before the first."""
        return self._pictures.reference(view)

    def frame_age_s(self, view: str) -> float | None:
        """Return how long ago the newest image of a view arrived; None before the first."""
        return self._pictures.age_s(view)

    def clip(self, slot: Slot, view: str) -> tuple[bytes, ...]:
        """Return JPEGs of a slot's last rollout, five a second; empty without."""
        return self._pictures.clip(slot, view)

    # -- commanding ----------------------------------------------------------------------------

    def take(self, name: str, take_over: bool = False) -> None:
        """Take control."""
        reply = self._call('take_control', TakeControl.Request(name=name, take_over=take_over))
        self._token = reply.control

    def release(self) -> None:
        """Release control."""
        token, self._token = self._token, ''
        self._call('take_control', TakeControl.Request(release=token))

    def open_session(self, evaluator: str, instruction: str, repeat: bool = False,
                     third_person: str = '') -> None:
        """Store what the session begins with and request a pair; returns once it is shown."""
        self._call('open_session', OpenSession.Request(
            evaluator=evaluator, instruction=instruction, repeat=repeat,
            third_person=third_person, control=self._token),
            SLOW_S)
        self._await(lambda: self.state().state not in (State.PREFLIGHT, State.TASK_ENTERED))

    def press(self, button: str, text: str = '') -> str:
        """Press a button; return what happened."""
        request = SessionCommand.Request(control=self._token, command=button, text=text)
        timeout_s = SLOW_S if button in SLOW else QUICK_S
        message = str(self._call('command', request, timeout_s).message)
        if button in COUNTS:
            self._await(lambda: self.state().verdict.valid is COUNTS[button])
        return message

    def start(self, slot: Slot, attended: Callable[[], bool] = always) -> None:
        """Start a slot's rollout; returns once it runs, or ended at once."""
        goal = RunEpisode.Goal(slot=slot.value, control=self._token, patience=PATIENCE_S)
        handle = send_goal(self._action, goal, QUICK_S, f'{self._session}/run_episode',
                           find_s=FIND_S, error=SessionError,
                           refused=f'{slot.value} was refused: another client has control')
        future = handle.get_result_async()
        future.add_done_callback(lambda _: self._wake())
        self._watcher = threading.Thread(target=self._watch, args=(future, attended),
                                         name='watching', daemon=True)
        self._watcher.start()
        self._await(lambda: future.done() or self.state().state.running is slot, SLOW_S,
                    f'{slot.value} has not begun; start it again')
        if future.done() and not future.result().result.end_reason:
            raise SessionError(future.result().result.detail)

    def stop(self) -> None:
        """Stop the arm now; return once it has confirmed rest. Needs no control."""
        self._call('e_stop', Trigger.Request())

    def score(self, slot: Slot, verdict: Verdict) -> None:
        """Keep what is said of a slot's rollout."""
        self._feedback(verdict, slot=slot.value)

    def judge(self, verdict: Verdict) -> None:
        """Keep what is said of the pair."""
        self._feedback(verdict)

    def draft(self, words: Mapping[str, Plain]) -> None:
        """Store what was typed and is not final, also what was cleared."""
        request = draft_request(words)
        request.control = self._token
        self._call('submit_feedback', request)

    def submit(self) -> None:
        """Submit the session."""
        verdict = self.state().verdict
        self._call('close_session', CloseSession.Request(
            valid=verdict.valid, invalid_reason=verdict.invalid_reason, control=self._token))

    def _await(self, seen: Callable[[], bool], timeout_s: float = QUICK_S,
               otherwise: str = 'the session node has not published its new state; try again',
               ) -> None:
        """Wait until the state topic shows the effect of a command."""
        if not self._presence.wait(self._changed, seen, timeout_s):
            raise SessionError(otherwise)

    def _feedback(self, verdict: Verdict, slot: str = '') -> None:
        self._call('submit_feedback', SubmitFeedback.Request(
            control=self._token, feedback=feedback_message(verdict), slot=slot))

    def _call(self, name: str, request: Any, timeout_s: float = QUICK_S) -> Any:
        reply = self._services.call(name, request, timeout_s)
        if not reply.success:
            raise SessionError(reply.message)
        return reply

    def hear(self, kind: type, topic: str, heard: Callable[[Any], None],
             profile: Any = qos.STREAM) -> None:
        """Call ``heard`` with every message of a topic from now on."""
        qos.subscription(self._node, kind, topic, heard, profile)

    def _watch(self, rollout: Any, attended: Callable[[], bool]) -> None:
        """Publish on ~/watching until the rollout has ended."""
        while not rollout.done() and not self._over.is_set():
            if attended():
                self._watching.publish(Empty())
            self._over.wait(WATCH_S)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _on_state(self, message: SessionState) -> None:
        with self._changed:
            self._state, self._known = desk_state(message), True
            self._changed.notify_all()

    def _on_episode(self, message: EpisodeInfo) -> None:
        self._first_ns = 0
        self._run = RunView(Slot(message.slot), message.steps, message.max_steps)

    def _on_step(self, message: StepRecord) -> None:
        stamp_ns = stamp_of(message.header.stamp)
        self._first_ns = self._first_ns or stamp_ns
        max_steps = self._run.max_steps if self._run else 0
        self._run = RunView(Slot(message.slot), message.index + 1, max_steps,
                            (stamp_ns - self._first_ns) * 1e-9)


class RemoteAudits:
    """Returns the newest audits when it is called; none where no audit_node runs."""

    def __init__(self, desk: RemoteDesk, name: str = 'audit_node') -> None:
        self._newest: Sequence[Mapping[str, Any]] = ()
        desk.hear(String, f'{name}/report', self._on_report, qos.LATCHED)

    def __call__(self) -> Sequence[Mapping[str, Any]]:
        """Return the newest audits, of up to twenty sessions."""
        return self._newest

    def _on_report(self, message: String) -> None:
        try:
            audits = json.loads(message.data)
        except ValueError as error:
            log.warning('the audits cannot be read: %s', error)
            return
        self._newest = audits if isinstance(audits, list) else ()


class Presence:
    """
    Tells for how long ``session/state`` has had no publisher; it looks each half second.

    A node that was killed or hangs is missed sooner, by ``session/alive``.
    """

    def __init__(self, node: Node, session: str) -> None:
        self._node, self._topic = node, f'{session}/state'
        self._seen_s = self._checked_s = time.monotonic()
        self._beat_s: float | None = None
        self._known: set[bytes] = set()
        qos.subscription(node, Empty, f'{session}/alive', self._on_beat)

    def gone_s(self) -> float:
        """Return for how long nobody has published the topic; 0 while somebody does."""
        now_s = time.monotonic()
        if now_s - self._checked_s >= GRAPH_LOOK_S:
            self._checked_s = now_s
            if self._node.count_publishers(self._topic):
                self._seen_s = now_s
        return max(self._checked_s - self._seen_s, 0.0)

    def restarts(self) -> int:
        """Return how many session nodes were seen, those that had ended included."""
        self._known |= {bytes(publisher.endpoint_gid)
                        for publisher in self._node.get_publishers_info_by_topic(self._topic)}
        return len(self._known)

    def wait(self, changed: threading.Condition, seen: Callable[[], bool],
             timeout_s: float) -> bool:
        """
        Return whether ``seen`` became true within ``timeout_s``; ``changed`` is notified then.

        Ends soon after the session node was started again: it lost what it was asked before.
        """
        end_s, restarts = time.monotonic() + timeout_s, self.restarts()
        with changed:
            while not seen():
                if time.monotonic() > end_s:
                    return False
                if self.restarts() != restarts:
                    restarts, end_s = self.restarts(), min(end_s, time.monotonic() + LATE_S)
                changed.wait(WATCH_S)
        return True

    def with_notice(self, state: DeskState) -> DeskState:
        """Return the state, with a notice while the node is silent."""
        beat_s = self._beat_s
        if beat_s is None or time.monotonic() - beat_s < SILENT_S:
            return state
        return replace(state, notice=' '.join(filter(None, (SILENT, state.notice))))

    def _on_beat(self, _: Empty) -> None:
        self._beat_s = time.monotonic()
