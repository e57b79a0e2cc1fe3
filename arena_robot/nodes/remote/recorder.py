"""Recorder and Scene interfaces over the services of recorder_node and sim_station."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from std_srvs.srv import Trigger

from arena_msgs.msg import RecorderStatus
from arena_msgs.srv import CheckStreams, StartRecording, StopRecording
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import DriverError, RecordingError
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.recording.bag.recover import is_complete
from arena_robot.records.episode_file import has_episode
from arena_robot.session.base import Check, RecordedSteps

log = logging.getLogger(__name__)

SCENE_S = 10.0      # to set up a scene
SILENT_S = 4.0      # four statuses in a row
STREAMS_S = 5.0     # for a message on every stream
ANSWER_S = 2.0      # for an answer that waits for nothing
START_S = 4.0       # to open a bag
ASK_S = 3.0         # for one answer to `stop`
STOP_S = 60.0       # for a bag to be finished, all tries together


class RemoteRecorder:
    """
    The recorder node; see :class:`arena_robot.session.base.Recorder`.

    ``streams`` are the topics that it must record, images by their raw topics. The steps are
    counted on ``~/step`` of ``node``.
    """

    def __init__(self, node: Node, other: str = 'recorder_node',
                 streams: Sequence[str] = ()) -> None:
        self._streams = list(streams)
        self._steps_topic = node.resolve_topic_name('~/step')
        self._services = ServiceClients(node, other, {
            'start': StartRecording, 'stop': StopRecording, 'check_streams': CheckStreams})
        self._parameters = ServiceClients(node, other, {'get_parameters': GetParameters})
        self._status_s = 0.0
        self._elsewhere = 0
        self._episode = ('', '')
        qos.subscription(node, RecorderStatus, f'{other}/status', self._on_status)

    def check(self) -> Check:
        """Return whether the recorder runs."""
        name = self._services.other
        if self._services.present():
            return Check('recorder', True, name)
        return Check('recorder', False, f'recorder: {name} does not answer; start it')

    def check_streams(self) -> Check:
        """Return whether everything that an episode needs arrives at the recorder."""
        name, request = 'recorded streams', CheckStreams.Request(
            topics=self._streams, timeout_s=STREAMS_S)
        try:
            reply = self._ask('check_streams', request, STREAMS_S + ANSWER_S, 3)
        except DriverError as error:
            return Check(name, False, f'{name}: {error}')
        if not reply.success:
            return Check(name, False, f'{name}: {reply.message}')
        return Check(name, True, f'{len(self._streams)} arrive at {self._services.other}')

    def start(self, session_id: str, slot: Slot) -> None:
        """Start recording an episode. Raises RecordingError."""
        request = StartRecording.Request(session_id=session_id, slot=slot.value,
                                         topics=self._streams)
        try:
            reply = self._ask('start', request, START_S, 3)
        except DriverError as error:
            raise RecordingError(str(error)) from error
        if not reply.success:
            raise RecordingError(reply.message)
        self._episode, self._elsewhere = (session_id, slot.value), 0
        self._status_s = time.monotonic()

    def lost(self) -> str:
        """Return why the episode is no longer recorded; empty while it is."""
        name, silent_s = self._services.other, time.monotonic() - self._status_s
        if silent_s > SILENT_S:
            return f'{name} has sent no status for {silent_s:.1f} s'
        # One status may have been sent before the recording began.
        return f'{name} was restarted and does not record this' if self._elsewhere > 1 else ''

    def _on_status(self, status: RecorderStatus) -> None:
        self._status_s = time.monotonic()
        here = status.recording and (status.session_id, status.slot) == self._episode
        self._elsewhere = 0 if here else self._elsewhere + 1

    def stop(self, end: EndReason, detail: str, steps: int = 0) -> RecordedSteps | None:
        """Finish the recording and return what it has. Raises RecordingError."""
        request = StopRecording.Request(end_reason=end.value, detail=detail,
                                        counted_topic=self._steps_topic, published=steps)
        end_s = time.monotonic() + STOP_S
        while True:
            # A recorder that is gone is asked once more: it may be back, or only its answer lost.
            last = bool(self.lost()) or time.monotonic() > end_s
            try:
                reply = self._ask('stop', request, ASK_S, 1)
            except DriverError as error:
                if last:
                    raise RecordingError(str(error)) from error
                continue
            if not reply.success:
                raise RecordingError(reply.message)
            return RecordedSteps(reply.session_id, reply.slot, reply.counted)

    def ready(self, folder: Path) -> bool:
        """Return whether a recording has all the files that the recorder makes of it."""
        return has_episode(folder) or (not self._derives() and is_complete(folder))

    def _derives(self) -> bool:
        """Return the recorder's parameter ``derive``; True while the recorder does not answer."""
        request = GetParameters.Request(names=['derive'])
        try:
            values = self._parameters.call('get_parameters', request, ANSWER_S).values
        except DriverError:
            return True
        return not values or bool(values[0].bool_value)

    def _ask(self, name: str, request: Any, timeout_s: float, attempts: int) -> Any:
        # The answer of a node that has just started can be lost, and its services appear and
        # vanish until the ROS graph has dropped its killed predecessor. A repeated call has no
        # second effect.
        for left in reversed(range(attempts)):
            try:
                return self._services.call(name, request, timeout_s)
            except DriverError:
                if not left or not self._services.present():
                    raise
        raise AssertionError('attempts must be positive')


class RemoteScene:
    """The simulated station's scene; see :class:`arena_robot.session.base.Scene`."""

    def __init__(self, node: Node, other: str = 'sim_station') -> None:
        self._services = ServiceClients(
            node, other, {'save_start': Trigger, 'restore_start': Trigger})

    def keep(self) -> None:
        """Save the current scene as the start."""
        self._services.trigger('save_start', SCENE_S)

    def restore(self) -> None:
        """Restore the saved scene, with errors as a person would make."""
        self._services.trigger('restore_start', SCENE_S)
