"""
recorder_node: records all topics of an episode into a rosbag2 bag.

Services: ``~/start`` and ``~/stop`` with session and slot, ``~/pause``, ``~/resume``,
``~/is_paused``, ``~/split_bagfile``. ``~/status`` publishes once a second the received, written
and lost messages. SIGINT and SIGTERM finish the bag; a bag that was cut off is recovered when the
recorder starts again.
"""

import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from std_srvs.srv import Trigger

from arena_msgs.msg import RecorderStatus, TopicStats
from arena_msgs.srv import StartRecording, StopRecording
from arena_robot.core.clock import DAY_S
from arena_robot.core.episode import EndReason
from arena_robot.core.errors import ArenaError, RecordingError
from arena_robot.core.files import move
from arena_robot.core.process import wait_until
from arena_robot.nodes.lib import diagnostics, qos
from arena_robot.nodes.lib.convert import header
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.parameters import Parameters, declare, param, refuse_unknown
from arena_robot.nodes.lib.qos import read_overrides
from arena_robot.nodes.lib.spin import run_node
from arena_robot.nodes.lib.timeline import STEADY, RosClock
from arena_robot.nodes.recorder.derive import Deriver, recover_bag
from arena_robot.nodes.recorder.streams import StreamCheck
from arena_robot.nodes.recorder.topics import IMAGES, Choice, TopicSubscriptions
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.recorder import (
    BagRecorder,
    RecorderReport,
    RecorderSettings,
    disk_free,
)
from arena_robot.recording.bag.recover import cut_off, tidy, underived
from arena_robot.recording.bag.writer import LatchedSet
from arena_robot.records.episode_file import earlier_home

_MIB = 2**20
_REPEAT_S = 30.0         # a call whose answer was lost is repeated within seconds
LAST_MESSAGES_S = 1.0    # published messages arrive within milliseconds, or are lost
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.-]*')
LEVELS = {'none': 0, 'zstd_fast': 1, 'zstd_small': 15}    # of zstandard


@dataclass(frozen=True, kw_only=True)
class RecorderParams(Parameters):
    """The parameters of recorder_node."""

    output_dir: str = param(
        '~/arena/sessions',
        'folder of the sessions; an episode goes to <output_dir>/<session id>/<slot>')
    topics: tuple[str, ...] = param(('.*',), 'regular expressions of the topics to record')
    exclude: tuple[str, ...] = param(
        Choice().exclude, 'regular expressions of the topics to leave out')
    images: str = param(
        'jpeg', 'which image topics to record; jpeg: raw ones only of views without JPEGs that '
        'the session uses', choices=tuple(IMAGES))
    qos_profile_overrides_path: str = param(
        '', 'file with QoS profiles by topic, as ros2 bag takes')
    max_cache_size: int = param(
        200 * _MIB, 'limit of data waiting for the disk', _MIB, 2**34, unit='B')
    compression: str = param(
        'zstd_fast', 'compression of state; images are stored as received', choices=tuple(LEVELS))
    chunk_size: int = param(2 * _MIB, 'size of a chunk in the file', 2**16, 2**26, unit='B')
    flush_period: float = param(
        0.5, 'time between two writes to the disk; what kill -9 loses', 0.05, 10.0, unit='s')
    min_free_disk: float = param(
        4.0, 'free disk space required to start a recording', 0.0, 1e6, unit='GiB')
    settle_time: float = param(
        0.1, 'wait for late messages before closing a bag', 0.0, 5.0, unit='s')
    derive: bool = param(True, 'write steps.npz, videos and episode.json after each recording')


class RecorderNode(Listening):
    """Records one episode after the other."""

    def __init__(self, **options: Any) -> None:
        super().__init__('recorder_node', **options)
        v = self.params = declare(self, RecorderParams())
        refuse_unknown(self)
        self.root = Path(v.output_dir).expanduser().absolute()
        self._time = RosClock(self.get_clock(), self.context)
        self.recorder = BagRecorder(RecorderSettings(
            cache_bytes=v.max_cache_size, chunk_bytes=v.chunk_size,
            flush_s=v.flush_period, level=LEVELS[v.compression],
            min_free_bytes=int(v.min_free_disk * 2**30)), self._time)
        self.topics = TopicSubscriptions(
            self, Choice(v.topics, v.exclude, v.images),
            self._time, self._take, self._announce, self.recorder.count_lost,
            read_overrides(v.qos_profile_overrides_path))
        StreamCheck(self, self.topics.required, self.topics.problems, self.topics.choice.allows)
        self.deriver = Deriver()
        self._latched = LatchedSet()
        self._known: dict[str, Topic] = {}
        self._latching: set[str] = set()
        self._latched_guard = threading.Lock()
        self._episode = ('', '')
        self._problem = ''
        self._last: tuple[float, StopRecording.Response] | None = None
        self._make_interfaces()
        self._mend()
        self.topics.open()

    def _mend(self) -> None:
        """Recover, in the background, the bags that a killed recorder left."""
        tidy(self.root)
        broken = cut_off(self.root)
        for folder in broken:
            self.get_logger().warning(f'{folder} was cut off; it is being recovered')
            self.deriver.add(folder, recover_bag)
        if self.params.derive:
            for folder in (*broken, *underived(self.root, DAY_S)):
                self.deriver.add(folder)

    def _make_interfaces(self) -> None:
        self._status = qos.publisher(self, RecorderStatus, '~/status')
        self._reports = qos.publisher(self, DiagnosticArray, '/diagnostics')
        group = MutuallyExclusiveCallbackGroup()
        for name, kind, callback in (
                ('start', StartRecording, self._on_start), ('stop', StopRecording, self._on_stop),
                ('pause', Trigger, self._on_pause), ('resume', Trigger, self._on_resume),
                ('is_paused', Trigger, self._on_is_paused),
                ('split_bagfile', Trigger, self._on_split)):
            self.create_service(kind, f'~/{name}', callback, callback_group=group)
        self.create_timer(1.0, self._each_second, clock=STEADY,
                          callback_group=MutuallyExclusiveCallbackGroup())

    def close(self) -> None:
        """Finish the open bag, and close."""
        if self.recorder.is_recording:
            try:
                self.stop(EndReason.INTERRUPTED.value, 'the recorder was shut down')
            except RecordingError as error:
                self.get_logger().error(f'the bag could not be finished: {error}')
        self.topics.close()
        self.deriver.close()

    def start(self, session_id: str, slot: str) -> Path:
        """
        Open a bag for an episode and return its folder; does nothing if it is open.

        Raises RecordingError.
        """
        if self.recorder.is_recording and self._episode == (session_id, slot):
            return self.root / session_id / slot
        for word in (session_id, slot):
            if not _NAME.fullmatch(word):
                raise RecordingError(f'session_id and slot name folders: letters, digits, _ . -; '
                                     f'found {word!r}')
        folder = self.root / session_id / slot
        self.recorder.check_disk(folder)
        self.deriver.hold()
        try:
            if not self.recorder.is_recording:
                self.deriver.moved(folder, keep_earlier(folder))
            with self._latched_guard:
                self.recorder.start(folder, list(self._known.values()), list(self._latched),
                    {'session_id': session_id, 'slot': slot})
        except RecordingError:
            if not self.recorder.is_recording:
                self.deriver.release()
            raise
        self._episode = (session_id, slot)
        self._problem = ''
        self.get_logger().info(f'recording {len(self._known)} topics into {folder}')
        return folder

    def stop(self, end_reason: str, detail: str, topic: str = '',
             published: int = 0) -> StopRecording.Response:
        """
        Close the bag; return whose it is, its folder, and what is in it.

        The last of so many messages that were ``published`` on ``topic`` are waited for. If it is
        called again soon after, because an answer was lost, it returns the same. Raises
        RecordingError.
        """
        if not self.recorder.is_recording and self._last is not None:
            stopped_s, result = self._last
            if time.monotonic() - stopped_s < _REPEAT_S:
                return result
        time.sleep(self.params.settle_time)
        self.topics.drain()
        wait_until(lambda: self.recorder.received(topic) >= published, LAST_MESSAGES_S)
        (session_id, slot), folder = self._episode, Path(self.recorder.folder or '')
        try:
            bag, report = self.recorder.stop({'end_reason': end_reason, 'detail': detail})
        finally:
            self._episode = ('', '')
            self.deriver.release()
        size = sum((folder / f.path).stat().st_size for f in bag.files)
        lost = sum(t.lost for t in report.topics)
        self.get_logger().info(f'{bag.message_count} messages, {lost} lost, '
                               f'{size / _MIB:.1f} MiB in {folder}')
        if self.params.derive:
            self.deriver.add(folder)
        result = StopRecording.Response(
            success=True, message='the recording is complete', directory=str(folder),
            session_id=session_id, slot=slot, counted=bag.counts.get(topic, 0),
            written=bag.message_count, lost=lost, bytes=size)
        self._last = (time.monotonic(), result)
        return result

    def _announce(self, topic: Topic) -> None:
        with self._latched_guard:
            self._known[topic.name] = topic
            if topic.is_latched:
                self._latching.add(topic.name)
            self.recorder.add_topic(topic)

    def _take(self, message: Message) -> None:
        if message.topic in self._latching:
            with self._latched_guard:
                self._latched.add(self._known[message.topic], message)
                self.recorder.push(message)
        else:
            self.recorder.push(message)

    def _on_start(self, request: StartRecording.Request, response: StartRecording.Response
                  ) -> StartRecording.Response:
        self.topics.required.require(request.topics)
        try:
            response.directory = str(self.start(request.session_id, request.slot))
            response.success, response.message = True, 'recording'
        except ArenaError as error:
            self._problem = response.message = str(error)
            self.get_logger().error(str(error))
        return response

    def _on_stop(self, request: StopRecording.Request, response: StopRecording.Response
                 ) -> StopRecording.Response:
        busy = self.recorder.is_recording
        try:
            return self.stop(request.end_reason, request.detail, request.counted_topic,
                             request.published)
        except ArenaError as error:
            response.message = str(error)
            if busy:  # a session node that has just started always calls stop
                self._problem = str(error)
                self.get_logger().error(str(error))
        return response

    def _on_pause(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.recorder.pause()
        response.success, response.message = True, 'paused'
        return response

    def _on_resume(self, request: Trigger.Request, response: Trigger.Response
                   ) -> Trigger.Response:
        self.recorder.resume()
        response.success, response.message = True, 'resumed'
        return response

    def _on_is_paused(self, request: Trigger.Request, response: Trigger.Response
                      ) -> Trigger.Response:
        response.success = self.recorder.is_paused
        response.message = 'paused' if response.success else 'not paused'
        return response

    def _on_split(self, request: Trigger.Request, response: Trigger.Response
                  ) -> Trigger.Response:
        try:
            self.topics.drain()
            response.message = str(self.recorder.split())
            response.success = True
        except ArenaError as error:
            response.message = str(error)
        return response

    def _each_second(self) -> None:
        self.deriver.step()
        report = self.recorder.report()
        now_ns = self._time.now_ns()
        self._status.publish(self._status_message(report, now_ns))
        lost = sum(t.lost for t in report.topics)
        level = diagnostics.OK
        if report.problem or self._problem:
            level = diagnostics.ERROR
        elif lost or self.topics.problems:
            level = diagnostics.WARN
        self._reports.publish(diagnostics.report(now_ns, diagnostics.status(
            self, 'recording', str(self.root), level, self._message(report),
            {'Recording': report.recording, 'Topics': len(self.topics.topics), 'Lost': lost,
             'Bytes written': report.bytes_written, 'Bytes queued': report.bytes_queued,
             'Disk free (GiB)': f'{disk_free(self.root) / 2**30:.1f}'})))

    def _message(self, report: RecorderReport) -> str:
        words = [report.problem or self._problem, *self.topics.problems.values()]
        return '; '.join(word for word in words if word)

    def _status_message(self, report: RecorderReport, now_ns: int) -> RecorderStatus:
        session_id, slot = self._episode
        return RecorderStatus(
            header=header(now_ns, ''), recording=report.recording, paused=report.paused,
            session_id=session_id, slot=slot, directory=report.folder if report.recording else '',
            duration_s=report.duration_s, bytes_written=report.bytes_written,
            bytes_queued=report.bytes_queued, disk_free=disk_free(self.root),
            max_skew_s=report.max_skew_s, message=self._message(report),
            topics=[TopicStats(
                topic=t.topic, type=t.type, received=t.received, written=t.written, lost=t.lost,
                bytes=t.bytes, rate_hz=t.rate_hz, max_gap_s=t.max_gap_s,
                max_latency_s=t.max_latency_s) for t in report.topics])


def keep_earlier(folder: Path) -> Path:
    """Move an earlier recording of the same slot away and return where it is now."""
    home = earlier_home(folder)
    if home is None:
        return folder
    try:
        move(folder, home)
    except OSError as error:
        raise RecordingError(f'{folder} holds a recording that cannot be moved to {home}: '
                             f'{error.strerror}') from error
    return home


def main(args: Sequence[str] | None = None) -> int:
    """Run one recorder_node until it is interrupted."""
    return run_node(lambda spin: RecorderNode(context=spin.context), args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
