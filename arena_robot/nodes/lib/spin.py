"""
Spin, the class that starts, spins and stops rclpy, and the main function of every node.

Before ROS starts: the range of discovery, and whether SROS2 can do what its variables ask.
"""

import atexit
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

import rclpy
from rclpy.action import ActionClient, ActionServer
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    Executor,
    ExternalShutdownException,
    MultiThreadedExecutor,
    ShutdownException,
    SingleThreadedExecutor,
)
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from typing_extensions import Self

from arena_robot.core.errors import ArenaError, ConfigError, NotConnected
from arena_robot.core.process import end_signals
from arena_robot.core.tuning import keep_freed_memory, keep_what_exists, switch_threads_soon
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.shared_memory import PortWatch, mend_ports

RCLError = rclpy_implementation.RCLError
log = logging.getLogger(__name__)

GONE = 'pointer is invalid'    # rclpy's word for an action server that is closed meanwhile
STOP_S = 1.0          # how long an executor may take to end, and then its thread
DDS_S = 8.0           # how long Fast DDS may take to close: it can wait for itself for ever
STDERR = 2
PORT_LOOK_S = 1.0     # PortWatch counts looks of one a second
PROFILE_VARIABLES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
RANGE = 'ROS_AUTOMATIC_DISCOVERY_RANGE'
# Whoever sets one of these has chosen the range.
CHOSEN = (RANGE, 'ROS_STATIC_PEERS', 'ROS_DISCOVERY_SERVER', 'ROS_LOCALHOST_ONLY')
LOCAL = 'LOCALHOST'
SAID = (f'ROS hears this machine only; when parts of the station run on other machines, set '
        f'{RANGE}=SUBNET for all of them')


class Spin:
    """
    rclpy in this process: its context, and one executor with its threads per node.

    A node's callbacks never wait for another node's; subscriptions of a Listening node have their
    own thread. ``with`` starts; leaving it closes the nodes, within STOP_S each. Where the process
    ``ends_then``, it does so after DDS_S with 1 and the place of each thread if Fast DDS hangs.
    """

    def __init__(self, args: Sequence[str] | None = None, ends_then: bool = False) -> None:
        self.context = Context()
        self._ends_then = ends_then
        self.stopped = threading.Event()
        self._args = args
        self._nodes: list[tuple[Node, Executor, threading.Thread]] = []
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if not any(name in os.environ for name in PROFILE_VARIABLES):
            os.environ[PROFILE_VARIABLES[0]] = str(Path(__file__).parent.with_name('fastdds.xml'))
        # A thread inside rclpy at the end of the interpreter would abort the process.
        atexit.register(self.close)
        mend_ports()
        start_ros(self.context, self._args)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def add(self, node: Node, threads: int = 2) -> None:
        """Spin ``node`` in threads of its own from now on."""
        executor: Executor = (
            SingleThreadedExecutor(context=self.context) if threads == 1
            else MultiThreadedExecutor(num_threads=threads, context=self.context))
        executor.add_node(node)
        thread = threading.Thread(target=_spin, args=(executor,), daemon=True,
                                  name=f'spin {node.get_name()}')
        self._nodes.append((node, executor, thread))
        thread.start()
        if isinstance(node, Listening):
            node.listen()

    def late(self) -> bool:
        """Return whether a node gets its messages late until the process is started again."""
        return any(node.late for node, _, _ in self._nodes if isinstance(node, Listening))

    def catch_signals(self) -> None:
        """Let SIGINT, SIGTERM and SIGHUP end :meth:`wait`; for the main thread only."""
        for number in end_signals():
            self._before[number] = signal.signal(number, self._on_signal)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True once a signal has come or :meth:`stop` was called."""
        return self.stopped.wait(timeout_s)

    def stop(self) -> None:
        """End :meth:`wait`."""
        self.stopped.set()

    def close(self) -> None:
        """Close the nodes and rclpy; may be called twice."""
        self.stopped.set()
        listening = [node for node, _, _ in self._nodes if isinstance(node, Listening)]
        for listener in listening:
            listener.wind_down()
        for listener in listening:
            listener.close()
        if self._ends_then:
            # A thread of its own in C: Fast DDS hangs while it holds the interpreter.
            faulthandler.dump_traceback_later(DDS_S, exit=True, file=STDERR)
        for node, executor, thread in self._nodes:
            executor.shutdown(timeout_sec=STOP_S)
            thread.join(timeout=STOP_S)
            _destroy(node)
        self._nodes.clear()
        self.context.try_shutdown()
        if self._ends_then:
            faulthandler.cancel_dump_traceback_later()
        atexit.unregister(self.close)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # A second signal may arrive while the main thread holds the event's lock: ignore it.
        if not self.stopped.is_set():
            self.stopped.set()


def _destroy(node: Node) -> None:
    """
    Destroy a node with its actions, which rclpy leaves to the garbage collector.

    That may come much later in any thread, and then Fast DDS tells processes that are gone.
    """
    for part in list(node.waitables):
        if isinstance(part, ActionClient | ActionServer):
            part.destroy()
    node.destroy_node()


def _spin(executor: Executor) -> None:
    """Spin to the end; exceptions of callbacks are logged."""
    while True:
        try:
            executor.spin()
            return
        except (ExternalShutdownException, ShutdownException):
            return
        except InvalidHandle:
            log.debug('a part of the node was closed while it was looked at')
        except Exception as error:
            if isinstance(error, RCLError) and GONE in str(error):
                log.debug('an action of the node was closed while it was looked at')
            else:
                log.exception('a callback failed')


def _wait(spin: Spin) -> None:
    """Return once a signal has come. Raises NotConnected when messages do not come, or late."""
    watch = PortWatch()
    while not spin.wait(PORT_LOOK_S):
        if lost := watch.look():
            raise NotConnected(
                f"this process gets no requests: its {', '.join(lost)} in shared memory was "
                'deleted, as Fast DDS does at times after a process was killed; it has to be '
                'started again')
        if spin.late():
            raise NotConnected(
                'every message comes to this process up to a third of a second late: another one '
                'was killed while it wrote into its port of Fast DDS in shared memory; this '
                'process has to be started again')


def tune_process() -> None:
    """Let threads take turns soon, and keep freed memory."""
    switch_threads_soon()
    keep_freed_memory()


def run_node(make: Callable[[Spin], Node], args: Sequence[str] | None = None,
             threads: int = 3) -> int:
    """
    Run one node until SIGINT or SIGTERM and return the exit code.

    ``make`` builds the node in ``spin.context``.
    """
    return run_with(lambda spin: spin.add(make(spin), threads), args)


def run_with(build: Callable[[Spin], object], args: Sequence[str] | None = None) -> int:
    """
    Run what ``build`` adds to a Spin until SIGINT or SIGTERM.

    Returns 0, 2 for bad configuration, 1 for what else fails at the start, or once other
    processes cannot reach this one any more: whoever started it then starts it again.
    """
    tune_process()
    logging.basicConfig(stream=sys.stderr, format='[%(levelname)s] [%(name)s]: %(message)s')
    try:
        with Spin(args, ends_then=True) as spin:
            spin.catch_signals()
            build(spin)
            keep_what_exists()
            _wait(spin)
    except (ConfigError, RCLError) as error:
        log.error('%s', error)
        return 2
    except ArenaError as error:
        log.error('%s [%s]', error, error.code)
        return 1
    return 0


def start_ros(context: Context, args: Sequence[str] | None) -> None:
    """
    Start rclpy in a context.

    ConfigError when ROS_SECURITY_ENABLE asks for protected nodes and none can be made.
    """
    asked = os.environ.get('ROS_SECURITY_ENABLE') == 'true'
    try:
        rclpy.init(args=None if args is None else list(args), context=context,
                   signal_handler_options=SignalHandlerOptions.NO)
        if asked:
            rclpy.create_node('security_check', context=context, start_parameter_services=False,
                              enable_rosout=False).destroy_node()
    except RCLError as error:
        context.try_shutdown()
        if not asked:
            raise
        raise ConfigError(_sentence(str(error))) from error


def _sentence(error: str) -> str:
    enclave = os.environ.get('ROS_SECURITY_ENCLAVE_OVERRIDE', '')
    if 'security libraries' in error:
        return ('ROS_SECURITY_ENABLE is true, but this ROS was built without security, as the '
                'Python wheels are: use the ROS packages of Ubuntu, or unset ROS_SECURITY_ENABLE '
                'and keep ROS on this machine (ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST)')
    return (f'ROS_SECURITY_ENABLE is true, but no protected node can be made with the enclave '
            f'{enclave or "/"} of ROS_SECURITY_KEYSTORE='
            f'{os.environ.get("ROS_SECURITY_KEYSTORE", "")}: {error.splitlines()[0]}. Make the '
            'enclave as docs/operations.md says, and set both variables')


def local_only(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what limits discovery to this machine; nothing where the environment has a range."""
    return {} if any(name in environment for name in CHOSEN) else {RANGE: LOCAL}


def stay_local() -> str:
    """Limit discovery to this machine; return a sentence about it, '' where a range was chosen."""
    added = local_only(os.environ)
    os.environ.update(added)
    return SAID if added else ''
