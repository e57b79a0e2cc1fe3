"""
audit_node: audits each finished session in the background, and follows rollouts if asked to.

It looks for sessions whose verdict was submitted and delivered, audits each in a process of the
lowest priority and never while a rollout runs, and then publishes the newest audits
latched on ``~/report`` as a JSON list. Before, nothing of it is on a topic, in a file or in a log.
With ``live`` it publishes the progress of the running rollout on ``~/progress``; the recorder
leaves its topics out.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from std_msgs.msg import Float64, String

from arena_msgs.msg import SessionState
from arena_robot.audit.base import Judge
from arena_robot.audit.judges import make_judge, settings_of
from arena_robot.audit.run import ProgressFollower
from arena_robot.core.clock import DAY_S
from arena_robot.core.errors import ArenaError, DataError, DriverError
from arena_robot.core.observation import ROLES, Pixels
from arena_robot.drivers.base import Camera
from arena_robot.nodes.lib import diagnostics, qos
from arena_robot.nodes.lib.images import RAW, TRANSPORTS, styles_of
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.parameters import Parameters, declare, param, refuse_unknown
from arena_robot.nodes.lib.spin import run_node
from arena_robot.nodes.lib.timeline import STEADY, RosClock
from arena_robot.nodes.recorder.derive import Deriver
from arena_robot.nodes.remote.camera import RemoteCamera
from arena_robot.records.session_file import DONE, read_session, session_paths
from arena_robot.reports.audit_agreement import has_audits, session_audit
from arena_robot.reports.episode_audit import audit_session
from arena_robot.robots.cameras import STYLES

log = logging.getLogger(__name__)

RECENT_S = DAY_S
RUNNING = (SessionState.RUNNING_A, SessionState.RUNNING_B)
KEPT = 20          # audits on ~/report: as many sessions as a day has
MAX_AGE_S = 1.0    # a judge looks less often than a control loop


@dataclass(frozen=True, kw_only=True)
class AuditParams(Parameters):
    """The parameters of audit_node."""

    data_dir: str = param('~/arena', 'data_dir of the session node, whose sessions are audited')
    session: str = param('session_node', 'name of the session node')
    judge: str = param('local', 'who judges: a name of `arena judge list`, or module:Class')
    judge_settings: tuple[str, ...] = param((), 'settings of the judge, each KEY=VALUE')
    period: float = param(2.0, 'time between two looks for finished sessions', 0.1, 3600.0,
                          unit='s')
    live: bool = param(False, 'publish ~/progress while a rollout runs; an evaluator who sees it '
                       'is not blind any more')
    live_rate: float = param(2.5, 'values of ~/progress per second', 2.0, 10.0, unit='Hz')
    cameras: tuple[str, ...] = param(
        tuple(f'{role}_camera' for role in ROLES), 'camera nodes, in the order of roles')
    roles: tuple[str, ...] = param(ROLES, 'role of each camera node')
    topic_style: str = param(
        'zed5', 'topic names of the camera nodes', choices=tuple(STYLES))
    topic_styles: tuple[str, ...] = param(
        (), 'topic names of each camera node, as for the session node', choices=tuple(STYLES))
    image_transport: str = param(
        RAW, 'how the camera nodes send images, as for the session node',
        choices=tuple(TRANSPORTS))


class LiveProgress:
    """
    Tells the progress of a rollout ``rate_hz`` times a second, between ``start`` and ``stop``.

    ``cameras`` are by role, their left eyes are judged; they are opened with the first rollout.
    """

    def __init__(self, judge: Judge, cameras: Mapping[str, Camera], rate_hz: float,
                 tell: Callable[[float], None]) -> None:
        self._judge, self._rate_hz, self._tell = judge, rate_hz, tell
        self._cameras = cameras
        self._opened: set[str] = set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, instruction: str) -> None:
        """Follow a rollout; does nothing while one is followed."""
        if self._thread is not None:
            return
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(instruction, self._over),
                                        name='live progress', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it without waiting for the judge; what it says now is not told."""
        self._over.set()
        self._thread = None

    def _run(self, instruction: str, over: threading.Event) -> None:
        try:
            self._open()
            self._follow(ProgressFollower(self._judge, instruction), over)
        except ArenaError as error:
            log.warning('this rollout is not followed: %s', error)

    def _open(self) -> None:
        for role, camera in self._cameras.items():
            if role not in self._opened:
                camera.open()
                self._opened.add(role)

    def _follow(self, follower: ProgressFollower, over: threading.Event) -> None:
        due_s = began_s = time.monotonic()
        while not over.is_set():
            try:
                value = follower.add(time.monotonic() - began_s, self._pictures())
            except DriverError:
                value = None    # no fresh picture: the next one counts
            if value is not None and not over.is_set():
                self._tell(value)
            if follower.problem:
                log.warning('this rollout is not followed: %s', follower.problem)
                return
            due_s = max(due_s + 1.0 / self._rate_hz, time.monotonic())
            over.wait(due_s - time.monotonic())

    def _pictures(self) -> dict[str, Pixels]:
        return {role: camera.frame(MAX_AGE_S).left.pixels
                for role, camera in self._cameras.items()}


class AuditNode(Listening):
    """Audits the sessions of a station after their verdicts."""

    def __init__(self, **options: Any) -> None:
        super().__init__('audit_node', **options)
        v = self.params = declare(self, AuditParams())
        refuse_unknown(self)
        self._root = Path(v.data_dir).expanduser() / 'sessions'
        judge = make_judge(v.judge, dict(settings_of(v.judge_settings)))
        self.judge = judge.name
        self._time = RosClock(self.get_clock(), self.context)
        self._work = Deriver()
        self._is_published: dict[Path, bool] = {}    # of the sessions whose audit is wanted
        self._audits: list[dict[str, Any]] = []
        self._changed_s: dict[Path, float] = {}
        self._report = qos.publisher(self, String, '~/report', qos.LATCHED)
        self._reports = qos.publisher(self, DiagnosticArray, '/diagnostics')
        self._live = self._following(judge) if v.live else None
        qos.subscription(self, SessionState, f'{v.session}/state', self._on_state, qos.LATCHED)
        group = MutuallyExclusiveCallbackGroup()
        self.create_timer(v.period, self.look, clock=STEADY, callback_group=group)
        self.create_timer(1.0, self._each_second, clock=STEADY, callback_group=group)

    def look(self) -> None:
        """Audit the sessions that ended since the last look, and publish what is finished."""
        v = self.params
        for path in session_paths(self._root):
            folder = path.parent
            if folder not in self._is_published and self._is_new(path) and self._is_done(folder):
                self._is_published[folder] = False
                if not has_audits(folder, self.judge):
                    self._work.add(folder, audit_session, v.judge, *v.judge_settings)
        self._work.step()
        for folder, published in self._is_published.items():
            if not published and has_audits(folder, self.judge):
                self._is_published[folder] = True
                self._publish(folder)

    def close(self) -> None:
        """End the running audit; it is done at the next start."""
        if self._live is not None:
            self._live.stop()
        self._work.close()

    def _is_new(self, path: Path) -> bool:
        """Tell whether a session file was written in the last day and since the last look."""
        try:
            changed_s = path.stat().st_mtime
        except OSError:
            return False
        before, self._changed_s[path] = self._changed_s.get(path), changed_s
        return changed_s != before and time.time() - changed_s < RECENT_S

    def _is_done(self, folder: Path) -> bool:
        try:
            return read_session(folder).state == DONE
        except DataError:
            return False

    def _publish(self, folder: Path) -> None:
        try:
            self._audits = [*self._audits, session_audit(folder, self.judge)][-KEPT:]
            self._report.publish(String(data=json.dumps(self._audits)))
            log.info('%s is audited by %s', folder, self.judge)
        except ArenaError as error:
            log.error('the audit of %s cannot be read: %s', folder, error)

    def _on_state(self, message: SessionState) -> None:
        running = message.state in RUNNING
        if running:
            self._work.hold()
        else:
            self._work.release()
        if self._live is not None:
            if running:
                self._live.start(message.instruction)
            else:
                self._live.stop()

    def _following(self, judge: Any) -> LiveProgress:
        v = self.params
        progress = qos.publisher(self, Float64, '~/progress')
        views = judge.capabilities.views
        return LiveProgress(judge, {
            role: RemoteCamera(self, camera, style=style, eyes=('left',),
                               transport=v.image_transport)
            for role, camera, style in zip(v.roles, v.cameras, styles_of(
                v.topic_style, v.topic_styles, v.cameras), strict=True)
            if not views or role in views},
            v.live_rate, lambda value: progress.publish(Float64(data=value)))

    def _each_second(self) -> None:
        open_ = sum(not published for published in self._is_published.values())
        self._reports.publish(diagnostics.report(self._time.now_ns(), diagnostics.status(
            self, 'audits', str(self._root), diagnostics.OK, 'running',
            {'Judge': self.judge, 'Audited': len(self._is_published) - open_, 'Waiting': open_,
             'Live': self._live is not None})))


def main(args: Sequence[str] | None = None) -> int:
    """Run one audit_node until it is interrupted."""
    return run_node(lambda spin: AuditNode(context=spin.context), args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
