"""Topics, services and action of a session node; services and action call the conductor."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import CompressedImage
from std_msgs.msg import Empty
from std_srvs.srv import Trigger

from arena_msgs.action import RunEpisode
from arena_msgs.msg import ActionChunk, CameraView, EpisodeInfo, SessionState, StepRecord
from arena_msgs.srv import (
    CloseSession,
    ListSessions,
    OpenSession,
    SessionCommand,
    SubmitFeedback,
    TakeControl,
)
from arena_robot.core.action import Chunk
from arena_robot.core.clock import Clock
from arena_robot.core.episode import EndReason, Episode, Slot, Step
from arena_robot.core.errors import ArenaError, SessionError
from arena_robot.core.joined_call import JoinedCall, done, then
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import Observation, Pixels
from arena_robot.nodes.lib import qos, session_messages
from arena_robot.nodes.lib.calls import answering, create_deferred_service
from arena_robot.nodes.lib.session_messages import drafted_words, state_message, verdict_of
from arena_robot.nodes.lib.spin import RCLError
from arena_robot.nodes.remote.robot import RemoteArm
from arena_robot.session.evaluator.checks import check_slot
from arena_robot.session.evaluator.desk import Button, DeskState
from arena_robot.session.loop.rollout import RolloutRequest
from arena_robot.session.protocol.conductor import Conductor

log = logging.getLogger(__name__)

FEEDBACK_S = 0.2    # five reports a second, for an evaluator's page
SHOWN_EYE = '_left'


class RosAudience:
    """
    Publishes a session's events; see :class:`arena_robot.session.base.Audience`.

    ``fixed``, ``views`` and what ``arm`` is are published with every episode; ``shown`` returns
    the state to publish.
    """

    def __init__(self, node: Node, clock: Clock, arm: RemoteArm,
                 fixed: Mapping[str, Any], shown: Callable[[], DeskState],
                 views: Callable[[], Sequence[CameraView]] = tuple) -> None:
        self._node = node
        self._clock = clock
        self._arm = arm
        self._fixed = fixed
        self._slot = Slot.A
        self._space = ''
        self._shown, self._views = shown, views
        self._state = qos.publisher(node, SessionState, '~/state', qos.LATCHED)
        self._episode = qos.publisher(node, EpisodeInfo, '~/episode_info', qos.LATCHED)
        self._steps = qos.publisher(node, StepRecord, '~/step')
        self._chunks = qos.publisher(node, ActionChunk, '~/action_chunk')
        self._reference = qos.publisher(node, CompressedImage, '~/reset_reference', qos.LATCHED)
        self._references: dict[str, Publisher] = {}
        self.last: Step | None = None

    def changed(self) -> None:
        """Publish the state."""
        self._state.publish(state_message(self._shown()))

    def episode(self, job: RolloutRequest, episode: Episode | None) -> None:
        """Publish how an episode starts or ended."""
        self._slot = job.slot
        if episode is None:
            self.last, arm = None, self._arm.description()
            self._fixed = {**self._fixed, 'robot_type': arm.robot.name, 'backend': arm.backend}
        self._episode.publish(session_messages.episode_message(
            job, episode, self._clock.now_ns(), self._arm.frame, self._fixed, self._views()))

    def chunk(self, index: int, step: int, chunk: Chunk) -> None:
        """Publish the actions of an inference."""
        self._space = chunk.space.value
        self._chunks.publish(session_messages.chunk_message(
            index, step, chunk, self._slot, self._clock.now_ns(), self._arm.frame))

    def step(self, step: Step, observation: Observation) -> None:
        """Publish one control step."""
        self.last = step
        self._steps.publish(session_messages.step_message(
            step, observation, self._slot, self._space, self._arm.frame))

    def photos(self, photos: Mapping[str, Pixels]) -> None:
        """Publish the start photographs of the left eyes, each under its view's name."""
        now_ns = self._clock.now_ns()
        frames = {view.view: view.frame_id for view in self._views()}
        for number, (view, pixels) in enumerate(p for p in photos.items()
                                                if p[0].endswith(SHOWN_EYE)):
            message = session_messages.photo_message(to_jpeg(pixels), now_ns, frames.get(view, ''))
            if view not in self._references:
                self._references[view] = qos.publisher(
                    self._node, CompressedImage, f'~/reset_reference/{view}', qos.LATCHED)
            self._references[view].publish(message)
            if number == 0:
                self._reference.publish(message)


class SessionServices:
    """Offers the conductor to other processes: messages, the control token, and who watches."""

    def __init__(self, node: Node, conductor: Conductor, audience: RosAudience) -> None:
        self._conductor = conductor
        self._audience = audience
        group = ReentrantCallbackGroup()
        for kind, name, work in (
                (OpenSession, 'open_session', self._open),
                (SubmitFeedback, 'submit_feedback', self._feedback),
                (CloseSession, 'close_session', self._close),
                (SessionCommand, 'command', self._command),
                (TakeControl, 'take_control', self._take),
                (Trigger, 'confirm_scene_reset', self._confirm)):
            node.create_service(kind, f'~/{name}', answering(name, work), callback_group=group)
        create_deferred_service(node, Trigger, 'e_stop', self._stop, group)
        self._aborting = JoinedCall('abort', self._abort)
        create_deferred_service(node, Trigger, 'abort', self._aborting.ask, group)
        node.create_service(ListSessions, '~/list_sessions', self._list, callback_group=group)
        self._watched_s = 0.0
        self._running: set[threading.Event] = set()
        qos.subscription(node, Empty, '~/watching', self._on_watching, qos.STREAM)
        self._action = ActionServer(
            node, RunEpisode, '~/run_episode', self._run, callback_group=group,
            goal_callback=self._may_run, cancel_callback=self._cancel)

    def _open(self, request: OpenSession.Request, response: OpenSession.Response) -> str:
        shown = self._conductor.controlled(request.control).open_session(
            request.evaluator, request.instruction, request.repeat, request.third_person)
        response.session_id, response.commitment = shown.session_id, shown.commitment
        return shown.message

    def _feedback(self, request: SubmitFeedback.Request, _: Any) -> str:
        self._meant(request.feedback.session_id)
        verdict = verdict_of(request.feedback)
        conductor = self._conductor.controlled(request.control)
        if request.draft:
            conductor.draft(drafted_words(request))
            return 'kept'
        if request.slot:
            conductor.score(check_slot(request.slot), verdict)
            return f'{request.slot} is scored'
        conductor.judge(verdict)
        return 'the verdict is kept'

    def _close(self, request: CloseSession.Request, _: Any) -> str:
        self._meant(request.session_id)
        conductor = self._conductor.controlled(request.control)
        valid = conductor.record.verdict.valid
        if not request.valid and valid:
            conductor.invalidate(request.invalid_reason)
        elif request.valid and not valid:
            conductor.revalidate()
        conductor.submit()
        return 'submitted'

    def _command(self, request: SessionCommand.Request, _: Any) -> str:
        return self._conductor.controlled(request.control).press(request.command, request.text)

    def _take(self, request: TakeControl.Request, response: TakeControl.Response) -> str:
        control = self._conductor.control
        if request.release:
            control.release(request.release)
        else:
            response.control = control.take(request.name, request.take_over)
        self._audience.changed()
        return f"in control: {control.holder or 'nobody'}"

    def _confirm(self, request: Trigger.Request, _: Any) -> str:
        return self._conductor.controlled('').press(Button.CONFIRM_RESET)

    def _stop(self) -> 'Future[str]':
        return then(self._conductor.motions.begin_rest(), lambda: done('the arm is at rest'))

    def _abort(self) -> str:
        self._conductor.abort()
        return 'the session is ended'

    def _list(self, request: ListSessions.Request,
              response: ListSessions.Response) -> ListSessions.Response:
        response.sessions = [state_message(shown) for shown in self._conductor.today()]
        return response

    def _meant(self, session_id: str) -> None:
        present = self._conductor.record.session_id
        if session_id and session_id != present:
            raise SessionError(f"session {session_id} is not the present one "
                               f"('{present or 'none'}')")

    # -- the rollout ---------------------------------------------------------------------------

    def _on_watching(self, _: Empty) -> None:
        self._watched_s = time.monotonic()

    def _may_run(self, goal: RunEpisode.Goal) -> GoalResponse:
        try:
            self._conductor.controlled(goal.control)
            check_slot(goal.slot)
            if goal.prompt and goal.prompt != self._conductor.record.prompt:
                raise SessionError(f"the session's instruction is "
                                   f"'{self._conductor.record.prompt}', not '{goal.prompt}'")
        except ArenaError as error:
            log.warning('a rollout was refused: %s', error)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        # Without waiting: neither for the arm nor for the rollout's thread.
        self._conductor.motions.begin_stop().add_done_callback(_log_error)
        return CancelResponse.ACCEPT

    def end_rollout(self, timeout_s: float) -> None:
        """Interrupt a running rollout, and wait so long until its end is stored."""
        running, until_s = tuple(self._running), time.monotonic() + timeout_s
        if running:
            self._conductor.motions.begin_stop(
                EndReason.INTERRUPTED, 'the station was ended').add_done_callback(_log_error)
        for over in running:
            over.wait(max(0.0, until_s - time.monotonic()))

    def _run(self, handle: ServerGoalHandle) -> RunEpisode.Result:
        over = threading.Event()
        self._running.add(over)
        goal, result = handle.request, RunEpisode.Result()
        self._watched_s = time.monotonic()
        threading.Thread(target=self._tell, args=(handle, over), daemon=True).start()
        try:
            episode = self._conductor.run(Slot(goal.slot), goal.max_steps)
        except ArenaError as error:
            result.end_reason, result.detail = '', str(error)
            handle.abort()
            return result
        finally:
            over.set()
            self._running.discard(over)
        _fill(result, episode)
        if handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.succeed()
        return result

    def _tell(self, handle: ServerGoalHandle, over: threading.Event) -> None:
        started_ns = 0
        while not over.wait(FEEDBACK_S):
            self._see_who_watches(handle.request.patience)
            step = self._audience.last
            if step is None:
                continue
            started_ns = started_ns or step.stamp_ns
            try:
                handle.publish_feedback(RunEpisode.Feedback(
                    step=step.index + 1, elapsed_s=(step.stamp_ns - started_ns) * 1e-9))
            except (RCLError, InvalidHandle):
                return     # the node is being closed while the arm comes to rest

    def _see_who_watches(self, patience_s: float) -> None:
        silent_s = time.monotonic() - self._watched_s
        if 0.0 < patience_s < silent_s:
            self._watched_s = time.monotonic()
            try:
                self._conductor.stop(EndReason.INTERRUPTED, 'nobody watched for '
                                     f"{silent_s:.1f} s: the evaluator's page was closed or lost")
            except ArenaError as error:
                log.error('the arm could not be stopped: %s', error)


def _log_error(stopped: 'Future[None]') -> None:
    error = stopped.exception()
    if error is not None:
        log.error('the arm could not be stopped: %s', error)


def _fill(result: RunEpisode.Result, episode: Episode) -> None:
    result.end_reason, result.detail = episode.end.value, episode.detail
    result.steps = episode.steps
    result.duration_s = (episode.ended_ns - episode.started_ns) * 1e-9
