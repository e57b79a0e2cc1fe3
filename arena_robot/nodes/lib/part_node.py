"""
Base of the nodes of robot parts: lifecycle, publishing thread, diagnostics, reconnection.

Configure connects and reads, activate publishes and accepts commands, deactivate stops and holds,
cleanup disconnects. Publishing is triggered by the part's readings, not by timers, so stamps are
as fresh as possible and an idle executor uses no processor time.
"""

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import State as StateId
from rclpy.callback_groups import CallbackGroup, MutuallyExclusiveCallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.publisher import Publisher
from rclpy.service import Service
from rclpy.subscription import Subscription
from std_srvs.srv import Trigger

from arena_robot.core.errors import ArenaError, DriverError, SafetyError
from arena_robot.drivers.base import Part
from arena_robot.nodes.lib import convert, diagnostics, qos
from arena_robot.nodes.lib.endpoints import PlayedInto
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.parameters import DRIVER, Current, declare, refuse_unknown
from arena_robot.nodes.lib.part_params import PartParams
from arena_robot.nodes.lib.timeline import STEADY, RosClock, SameTime, Timeline

RETRY_S = 5.0                # between two tries to connect
JOIN_S = 1.0                 # stream_once waits half a second at most
PATIENCE_NS = 400_000_000    # a failure that is over sooner is not logged
OK = TransitionCallbackReturn.SUCCESS
FAILED = TransitionCallbackReturn.FAILURE


@runtime_checkable
class KeepsTime(Protocol):
    """A part with its own time, such as a simulation's."""

    timeline: Timeline


P = TypeVar('P', bound=PartParams, covariant=True)


class PartNode(Listening, LifecycleNode, Generic[P]):
    """
    Lifecycle node of one robot part; subclasses make the part, publish and report.

    ``make_part`` overrides how the part is built (a simulated station hands its own in, with the
    ``timeline`` of its world); by default the ``backend`` parameter decides.
    """

    def __init__(self, name: str, defaults: P, make_part: Callable[[], Part] | None = None,
                 timeline: Timeline | None = None, **options: Any) -> None:
        super().__init__(name, **options)
        self.has_own_part = make_part is not None
        self.timeline: Timeline = timeline or SameTime(RosClock(self.get_clock(), self.context))
        self._current = Current(self, declare(self, defaults), then=self.on_params)
        self.extra_params()
        # With use_fake_hardware the file's driver, whose parameters those are, is not used.
        refuse_unknown(self, (DRIVER,) if self.params.use_fake_hardware else ())
        self.part: Part | None = None
        self._opened, self._reason = False, ''
        self._made: list[Any] = []
        self.played = PlayedInto(self, self._made)
        self._make_part = make_part
        self._thread: threading.Thread | None = None
        self._halt = threading.Event()
        self._wanted = self.params.autostart
        self._failing_since_ns: int | None = None
        self._next_try_ns = 0
        self._cpu_s = 0.0
        self._cpu_before = (0.0, time.monotonic())
        self.safe_group = MutuallyExclusiveCallbackGroup()
        self._reports = qos.publisher(self, DiagnosticArray, '/diagnostics')
        self._timer = self.create_timer(self.params.diagnostic_period, self._each_second,
                                        callback_group=MutuallyExclusiveCallbackGroup(),
                                        clock=STEADY)

    @property
    def params(self) -> P:
        """The parameters; those that may change while the node runs, as they are now."""
        return self._current.values

    # -- what subclasses say -----------------------------------------------------------------

    def extra_params(self) -> None:
        """Declare parameters that depend on others."""

    def build_part(self) -> Part:
        """Return the part, not yet open."""
        raise NotImplementedError

    def on_open(self) -> None:
        """Create publishers, subscriptions and services once the part is open."""

    def on_params(self) -> None:
        """Take up parameters that changed while the node runs."""
        self._timer.timer_period_ns = round(self.params.diagnostic_period * 1e9)

    def on_start(self) -> None:
        """Prepare to stream; called just before the first :meth:`stream_once`."""

    def stream_once(self) -> None:
        """Wait for the next reading (at most half a second) and publish it."""
        raise NotImplementedError

    def on_hold(self) -> None:
        """Stop whatever moves; called only after :meth:`on_open`."""

    def report(self) -> Sequence[DiagnosticStatus]:
        """Return the statuses of this second."""
        return ()

    # -- lifecycle ---------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Connect; on failure stay unconfigured and say why."""
        try:
            self.part = self._make_part() if self._make_part else self.build_part()
            if isinstance(self.part, KeepsTime):
                self.timeline = self.part.timeline
            self.part.open()
            self.on_open()
            self._opened, self._reason = True, ''
        except ArenaError as error:
            self._reason = f': {error}'
            self.get_logger().error(f'cannot configure: {error}')
            self._release()
            return FAILED
        except InvalidHandle:    # the program ends
            return FAILED
        except Exception:    # rclpy itself says nothing of it
            self.get_logger().fatal(f'cannot configure: {traceback.format_exc()}')
            raise
        return OK

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start to stream."""
        self.on_start()
        self._halt.clear()
        self._failing_since_ns = None
        self._thread = threading.Thread(target=self._stream, daemon=True,
                                        name=f'stream {self.get_name()}')
        self._thread.start()
        self.get_logger().info(f'active, backend {self.params.chosen_backend}')
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop and hold."""
        self._wanted = False
        self._stand_still()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Disconnect the part."""
        self._wanted = False
        self._release()
        return OK

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop, hold, disconnect."""
        self.close()
        return OK

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Disconnect, so that the node can be configured again."""
        self._stand_still()
        self._release()
        return OK

    def close(self) -> None:
        """Stop, hold and disconnect in any state; for the end of the process."""
        self._wanted = False
        self._stand_still()
        self._release()

    def wind_down(self) -> None:
        """Stop publishing and accepting commands. :meth:`close` must follow."""
        self._wanted = False
        self._halt.set()

    @property
    def active(self) -> bool:
        """Whether commands are accepted and readings published."""
        return self._thread is not None and not self._halt.is_set()

    def state_id(self) -> int:
        """Return the id of the lifecycle state, one of lifecycle_msgs' PRIMARY_STATE_*."""
        return int(self._state_machine.current_state[0])

    def start(self) -> bool:
        """Configure and activate as far as possible now; return whether the node is active."""
        if self.state_id() == StateId.PRIMARY_STATE_UNCONFIGURED:
            self.trigger_configure()
        if self.state_id() == StateId.PRIMARY_STATE_INACTIVE:
            self.trigger_activate()
        return bool(self.state_id() == StateId.PRIMARY_STATE_ACTIVE)

    def trigger(self, name: str, work: Callable[[], str | None],
                group: CallbackGroup | None = None) -> None:
        """Create a Trigger service ``~/name`` that answers with the message of ``work``."""
        def serve(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            try:
                response.message = work() or 'done'
                response.success = True
            except ArenaError as error:
                response.success, response.message = False, str(error)
                self.get_logger().warning(f'{name}: {error}')
            return response
        self.keep(self.create_service(Trigger, f'~/{name}', serve,
                                      callback_group=group or self.safe_group))

    def keep(self, entity: Any) -> Any:
        """Register an entity made in configure, to be destroyed in cleanup."""
        self._made.append(entity)
        return entity

    # -- inside ------------------------------------------------------------------------------

    def _stream(self) -> None:
        while not self._halt.is_set():
            self._cpu_s = time.thread_time()
            try:
                self.stream_once()
                self._failing_since_ns, self._reason = None, ''
            except DriverError as error:
                self._on_failure(error)
            except Exception as error:
                if self._halt.is_set() or not self.context.ok():
                    return
                self.get_logger().error(f'cannot publish: {error!r}', throttle_duration_sec=2.0)
                self._halt.wait(0.05)

    def _on_failure(self, error: DriverError) -> None:
        """Report that the part failed, and reconnect periodically until it works."""
        now_ns, self._reason = time.monotonic_ns(), f': {error}'
        if self._failing_since_ns is None:
            self._failing_since_ns = now_ns
            self._next_try_ns = now_ns + round(RETRY_S * 1e9)
        if now_ns - self._failing_since_ns > PATIENCE_NS:
            self.get_logger().error(str(error), throttle_duration_sec=5.0)
        if self._make_part is None and now_ns >= self._next_try_ns and self.part is not None:
            self._next_try_ns = now_ns + round(RETRY_S * 1e9)
            try:
                self.part.close()
                self.part.open()
            except Exception as again:    # of whatever kind: the thread must live to try again
                self.get_logger().error(f'cannot reconnect: {again}')
        self._halt.wait(0.02)

    def _stand_still(self) -> None:
        self._halt.set()
        if self._opened:
            try:
                self.on_hold()
            except DriverError as error:
                self.get_logger().error(f'cannot hold: {error}')
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=JOIN_S)
        self._thread = None

    def _release(self) -> None:
        part, self.part, self._opened = self.part, None, False
        if part is not None:
            part.close()
        for entity in reversed(self._made):
            if isinstance(entity, Publisher):
                self.destroy_publisher(entity)
            elif isinstance(entity, Subscription):
                self.destroy_subscription(entity)
            elif isinstance(entity, Service):
                self.destroy_service(entity)
            else:
                entity.destroy()
        self._made.clear()

    def _each_second(self) -> None:
        if self._wanted and self.state_id() in (StateId.PRIMARY_STATE_UNCONFIGURED,
                                                StateId.PRIMARY_STATE_INACTIVE):
            now_ns = time.monotonic_ns()
            if now_ns >= self._next_try_ns:
                self._next_try_ns = now_ns + round(RETRY_S * 1e9)
                self.start()
        self.played.look()
        self._reports.publish(diagnostics.report(self.timeline.now_ns(), *self._statuses()))

    def _statuses(self) -> Sequence[DiagnosticStatus]:
        if self.active and self.part is not None:
            return [*self.report(), *self.played.report()]
        label, task = self._state_machine.current_state[1], diagnostics.LIFECYCLE
        return [diagnostics.status(self, task, '', diagnostics.STALE,
                                   f'not active ({label}){self._reason}', {})]

    def stream_status(self, task: str, hardware: str, rate: diagnostics.Rate,
                      values: Mapping[str, object]) -> DiagnosticStatus:
        """Return the status of a stream: ERROR while its part fails, WARN when it is slow."""
        rate.measure(self.timeline.now_ns())
        level, text = diagnostics.OK, 'streaming'
        if self._failing_since_ns is not None:
            level, text = diagnostics.ERROR, f'no readings{self._reason}; is it switched on?'
        elif rate.too_slow:
            level, text = diagnostics.WARN, f'{rate.actual_hz:.1f} Hz is too slow'
        return diagnostics.status(self, task, hardware, level, text,
                                  {**rate.values(), **values,
                                   'streaming CPU (cores)': f'{self._cpu_share():.3f}'})

    def _cpu_share(self) -> float:
        """Return the share of a core that streaming used since the last call."""
        before, self._cpu_before = self._cpu_before, (self._cpu_s, time.monotonic())
        cpu_s, wall_s = (a - b for a, b in zip(self._cpu_before, before, strict=True))
        return max(0.0, cpu_s) / max(wall_s, 1e-6)


class CommandStamps:
    """
    The times of the commands that a part's node receives.

    A command without a stamp cannot be told from one that a bag plays: it is refused, except with
    the parameter ``accept_unstamped``. While a bag is played into the station all are refused.
    """

    def __init__(self, node: PartNode[Any]) -> None:
        self._node = node

    def of(self, stamp: Time | None) -> int:
        """Return the part's time of a stamp (None: the command has none). Raises SafetyError."""
        node = self._node
        stamp_ns = 0 if stamp is None else convert.stamp_of(stamp)
        if not stamp_ns and not node.params.accept_unstamped:
            raise SafetyError('the command has no stamp, so a played bag could move the robot: '
                              'stamp it with the current time, or set accept_unstamped')
        played = node.played.problem if stamp_ns else node.played.look()
        if played:
            raise SafetyError(played)
        return node.timeline.to_part(stamp_ns) if stamp_ns else node.timeline.part.now_ns()
