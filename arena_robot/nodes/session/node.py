"""session_node: runs A/B sessions with the protocol, the arm and the recorder."""

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from std_msgs.msg import Empty

from arena_robot.core.errors import ArenaError, DriverError
from arena_robot.core.observation import Pixels
from arena_robot.drivers.base import Part
from arena_robot.nodes.lib import diagnostics, qos
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.parameters import declare, refuse_unknown
from arena_robot.nodes.lib.spin import Spin, run_with
from arena_robot.nodes.lib.timeline import RosClock
from arena_robot.nodes.remote.recorder import RemoteRecorder, RemoteScene
from arena_robot.nodes.remote.robot import RemoteArm, RemoteCamera, RemoteGripper
from arena_robot.nodes.session.connections import Connections, Namesakes
from arena_robot.nodes.session.params import SessionParams, make_arena, session_config
from arena_robot.nodes.session.services import RosAudience, SessionServices
from arena_robot.nodes.session.standstill import Standstill
from arena_robot.server.client import RemoteArena
from arena_robot.session.base import Check, NoRecorder, ScenePerson
from arena_robot.session.loop.parts import Ages, Parts
from arena_robot.session.loop.preflight import positions_check, server_check
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.protocol.conductor import Conductor
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import SessionStore

log = logging.getLogger(__name__)

THREADS = 8           # a few clients can wait for the arm while others are answered
# Periods of the chores.
COMPARE_S = 0.5       # the live view with the start photographs
DELIVER_S = 0.5
HEARTBEAT_S = 15.0
UPKEEP_S = 1.0
ALIVE_S = 0.25        # RemoteDesk misses five of these
TELL_S = 0.2          # how soon a person sees what the arm waits for
AGAIN_S = 5.0         # until a delivery that failed is tried again
CALL_S = 5.0          # for an answer of another node
ENDS_S = 2.5          # for a rollout to be stored at the end of the process: a busy disk is slow


class SessionNode(Listening):
    """Offers the conductor's commands as services and its state as topics."""

    def __init__(self, name: str = 'session_node', **options: Any) -> None:
        super().__init__(name, **options)
        self.params = declare(self, SessionParams())
        refuse_unknown(self)
        v = self.params
        config, clock = session_config(v), RosClock(self.get_clock(), self.context)
        arm = RemoteArm(self, v.arm, CALL_S)
        self.audience = RosAudience(self, clock, arm, {
            'station': v.station, 'control_rate_hz': v.control_rate, 'max_steps': v.max_steps},
            lambda: self.conductor.shown(), lambda: self.connections.views())
        self.parts = Parts(
            arm, RemoteGripper(self, v.gripper, CALL_S),
            {role: RemoteCamera(self, camera, CALL_S, style, eyes, '', v.image_transport)
             for role, camera, style, eyes in v.used()},
            Ages(image_s=v.max_image_age))
        self.connections = Connections(self, v, self.parts.cameras)
        self._namesakes = Namesakes(
            self, (v.arm, v.gripper, *v.cameras, *filter(None, (v.recorder,))))
        self._recorder = RemoteRecorder(
            self, v.recorder, self.connections.streams()) if v.recorder else None
        self.arena = make_arena(v, clock)
        motions = RobotMotions(self.parts, clock, config)
        self._store = store = SessionStore(Path(v.data_dir).expanduser() / 'sessions', clock)
        self.conductor = Conductor(
            motions, self.arena, store, self._recorder or NoRecorder(store.root),
            RemoteScene(self, v.scene) if v.scene else ScenePerson(),
            self.audience, clock, config, self._more_checks,
            self.arena.sign_in if isinstance(self.arena, RemoteArena) else None)
        self._reports = qos.publisher(self, DiagnosticArray, '/diagnostics')
        self._photos: tuple[str, ...] = ()
        self._announced: tuple[str, tuple[str, ...]] = '', ()
        self._over = threading.Event()
        self._offer: SessionServices | None = None
        self._connected: set[int] = set()
        self._connecting = threading.Lock()

    def open(self) -> None:
        """Connect to the robot, continue an interrupted session, serve; the node must spin."""
        self._connect_all()
        if (limit_s := self.params.stagnation_end) > 0.0:
            Standstill(self, f'{self.params.audit}/progress', limit_s,
                       lambda: self.conductor.record.state.running, self.conductor.stop)
        self.conductor.open()
        self._offer = SessionServices(self, self.conductor, self.audience)
        alive = qos.publisher(self, Empty, '~/alive')
        for name, period_s, work in (
                ('connect', 2.0, self._connect_all), ('namesakes', UPKEEP_S, self._namesakes.look),
                ('look', COMPARE_S, self._look), ('tell', TELL_S, self._tell_changes),
                ('deliver', DELIVER_S, self._deliver),
                ('heartbeat', HEARTBEAT_S, self.conductor.heartbeat),
                ('upkeep', UPKEEP_S, self.conductor.upkeep),
                ('alive', ALIVE_S, lambda: alive.publish(Empty())),
                ('report', 1.0, self._report)):
            threading.Thread(target=self._every, args=(name, period_s, work), daemon=True,
                             name=f'session {name}').start()
        log.info('the session node is ready; sessions are kept in %s', self.params.data_dir)

    def close(self) -> None:
        """Stop the arm and close; the session continues at the next start."""
        self._over.set()
        if self._offer:
            self._offer.end_rollout(ENDS_S)
        self.conductor.close()
        self.arena.close()

    # -- chores --------------------------------------------------------------------------------

    def _every(self, name: str, period_s: float, work: Callable[[], None]) -> None:
        while True:
            try:
                work()
            except (ArenaError, OSError) as error:
                log.debug('%s: %s', name, error)
            except Exception:
                # A failing chore must not end the others; its text must not be logged here.
                log.exception('%s failed', name)
            if self._over.wait(period_s):
                return

    def _connect_all(self) -> None:
        with self._connecting:
            waiting = [threading.Thread(target=self._connect, args=(part,), daemon=True)
                       for part in self._all_parts() if id(part) not in self._connected]
            for thread in waiting:
                thread.start()
            for thread in waiting:
                thread.join()

    def _connect(self, part: Part) -> None:
        with suppress(DriverError):
            part.open()
            self._connected.add(id(part))

    def _tell_changes(self) -> None:
        now = self.conductor.motions.waiting, self.conductor.repairs
        if now != self._announced:
            self._announced = now
            self.audience.changed()

    def _look(self) -> None:
        self._show_photos()
        if self.conductor.record.state is State.RESET and not self.conductor.motions.doing:
            self.conductor.look()

    def _show_photos(self) -> None:
        photos = self.conductor.motions.start_photos
        seen = (self.conductor.record.session_id, *photos)
        if photos and seen != self._photos:
            self._photos = seen
            self.audience.photos(photos)

    def _deliver(self) -> None:
        conductor = self.conductor
        if conductor.record.state is State.SUBMITTING or conductor.waiting:
            conductor.deliver()
            if conductor.problem or conductor.waiting:
                self._over.wait(AGAIN_S)

    def _report(self) -> None:
        shown = self.conductor.shown()
        level = diagnostics.WARN if shown.notice else diagnostics.OK
        self._reports.publish(diagnostics.report(
            RosClock(self.get_clock(), self.context).now_ns(), diagnostics.status(
                self, 'session', self.params.station, level,
                shown.state.value, {'doing': shown.doing, 'notice': shown.notice,
                                    'waiting for the arena': shown.waiting})))

    def _more_checks(self) -> list[Check]:
        self._connect_all()
        checks = [self._namesakes.check(), *self.connections.checks(),
                  positions_check(self._store.root, self._pictures)]
        if self._recorder:
            checks.append(self._recorder.check_streams())
        if isinstance(self.arena, RemoteArena):
            return [*checks, server_check(self.arena.check)]
        return [*checks, Check('arena', True, 'on this machine')]

    def _pictures(self) -> dict[str, Pixels]:
        return {name: image.pixels for name, image in self.parts.look().items()}

    def _all_parts(self) -> tuple[Part, ...]:
        return (self.parts.arm, self.parts.gripper, *self.parts.cameras.values())


def compose(spin: Spin) -> SessionNode:
    """Build the node, spin it, open it."""
    node = SessionNode(context=spin.context)
    spin.add(node, threads=THREADS)
    node.open()
    return node


def main(args: Sequence[str] | None = None) -> int:
    """Run the session node until it is interrupted."""
    return run_with(compose, args or sys.argv)


if __name__ == '__main__':
    sys.exit(main())
