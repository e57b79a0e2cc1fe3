"""Verbs of an evaluator: session, console. They use a running station, or a simulated one."""

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from typing_extensions import Self

from arena_robot.core.errors import Conflict, NotConnected
from arena_robot.core.process import end_signals
from arena_robot.session.evaluator.desk import Desk

if TYPE_CHECKING:
    from arena_robot.nodes.remote.desk import RemoteDesk


TOKEN_VARIABLE = 'ARENA_EVALUATOR_TOKEN'
LOOK_S = 1.0    # a person at the terminal learns within a second that the station has ended


def session_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--evaluator', default='', help='name of the evaluator (default: prompt; '
                        f'with a server, the personal token in ${TOKEN_VARIABLE} says it)')
    parser.add_argument('--instruction', default='', help='the task (default: prompt)')
    parser.add_argument('--third-person', default='', choices=('left', 'right'),
                        help='outside camera that a policy with only one sees (default: the '
                             "station's)")
    parser.add_argument('--auto', action='store_true',
                        help='a scripted evaluator that scores by the simulator')
    parser.add_argument('--sessions', type=int, default=1, metavar='N',
                        help='with --auto: how many sessions to run')
    parser.add_argument('--watch', action='store_true', help='watch without control')
    parser.add_argument('--take-over', action='store_true',
                        help='take control from whoever has it; --auto does so by itself where '
                             'no session is under way')
    add_desk_arguments(parser)


def run_session(args: argparse.Namespace) -> int:
    """
    Run a session from the terminal: instruction, A, reset, B, preference, review, submit.

    Uses a running session node; the web page (`arena console`) can show the same session at the
    same time. While a policy runs, `t` or the space bar brings the arm to rest and `d` ends the
    rollout as done.

        arena session                     be the evaluator
        arena session --watch             watch only
        arena session --sim --auto        a simulated station and a scripted evaluator
    """
    import_module('arena_robot.nodes.remote.desk')    # Python can lose a signal while it imports
    end_by_signals()
    with desk_of(args) as desk, StationWatch(desk):
        return run_with(desk, args)


def run_with(desk: 'RemoteDesk', args: argparse.Namespace) -> int:
    """Watch, lead or follow sessions at a desk."""
    from arena_robot.cli.station.session_terminal import Terminal
    from arena_robot.session.evaluator.desk import Button
    terminal = Terminal(desk, args.third_person)
    if args.watch:
        return terminal.watch()
    _take(desk, args)
    evaluator = args.evaluator
    if token := os.environ.get(TOKEN_VARIABLE, ''):
        evaluator = desk.press(Button.SIGN_IN, token)
    if not args.auto:
        return terminal.lead(evaluator, args.instruction)
    desk.watch_oracle()
    for _ in range(args.sessions):
        instruction = args.instruction or str(desk.oracle['instruction'])
        code = terminal.follow(evaluator or 'script', instruction,
                               lambda: float(desk.oracle['progress']))
        if code:
            return code
    return 0


def _take(desk: Desk, args: argparse.Namespace) -> None:
    """
    Take control. A script also takes it from a person who has no session under way.

    Raises Conflict, which says how to take over, while somebody else has control.
    """
    from arena_robot.session.protocol.states import State
    seen = desk.state()
    nothing = seen.state in (State.IDLE, State.PREFLIGHT) or seen.state.is_final
    may = args.take_over or (args.auto and nothing)
    if seen.control and not may:
        raise Conflict(f"'{seen.control}' controls this session: `arena session --watch` watches "
                       'it, `arena session --take-over` takes it over')
    desk.take('terminal', may)


def console_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--host', default='127.0.0.1', help='address to listen on')
    parser.add_argument('--port', type=int, default=8600, help='0 uses a free one')
    parser.add_argument('--token', default='', help='token in the link (default: random)')
    add_rerun_argument(parser)
    add_desk_arguments(parser)


def run_console(args: argparse.Namespace) -> int:
    """
    Serve the evaluator's page for a running station.

    By default the page is served for this machine only. With --host it requires a token, which is
    in the printed link.

        arena console                        http://localhost:8600/
        arena console --host 0.0.0.0         for a tablet in the lab, with a token
        arena console --sim                  with a simulated station
        arena console --rerun                with a Rerun viewer for engineers

    Rerun gets pictures, measured joints and the session's state, and names after the reveal.
    """
    from arena_robot.core.process import end_signals
    from arena_robot.core.tuning import keep_what_exists
    from arena_robot.nodes.remote.desk import RemoteAudits
    from arena_robot.web.console.app import ConsoleServer
    over, serves = threading.Event(), threading.Event()

    def end(*_: object) -> None:
        over.set()
        if not serves.is_set():    # it still waits for the session node
            raise KeyboardInterrupt
    for number in end_signals():
        signal.signal(number, end)
    with desk_of(args) as desk:
        desk.watch_views()
        with ConsoleServer(desk, args.host, args.port, args.token,
                           audits=RemoteAudits(desk)) as server:
            serves.set()
            keep_what_exists()
            live = nullcontext() if args.rerun is None else rerun_of(desk, args.rerun)
            print(f"the evaluator's page: {server.url}", flush=True)
            with live:
                over.wait()
    return 0


def add_rerun_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--rerun``."""
    parser.add_argument('--rerun', nargs='?', const='', metavar='WHERE',
                        help='show the station live in Rerun: a viewer here, or at an address '
                             'such as rerun+http://HOST:9876/proxy')


@contextmanager
def rerun_of(desk: 'RemoteDesk', where: str = '') -> Iterator[None]:
    """Show what happens at a station in Rerun, without anything that tells policies apart."""
    from contextlib import closing

    from arena_robot.recording.formats.rerun_file import LiveRerun

    def words() -> str:
        seen = desk.state()
        names = f': A was {seen.policy_a}, B was {seen.policy_b}' if seen.policy_a else ''
        return f'{seen.state.value}{names}'
    desk.watch_arm()
    live = LiveRerun(lambda: {view: desk.frame(view) for view in desk.views()}, desk.joints,
                     words, where)
    live.open()
    with closing(live):
        yield


def add_desk_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of :func:`desk_of`."""
    parser.add_argument('--namespace', default='', help='namespace of the station')
    parser.add_argument('--wait', type=float, metavar='S',
                        help='seconds to wait for the session node (default 5, with --sim 60)')
    parser.add_argument('--sim', action='store_true',
                        help='start a simulated station with recorder and session node as well')
    parser.add_argument('--policies', type=Path, metavar='FILE',
                        help='with --sim: YAML file with the pool (default: example policies)')
    parser.add_argument('--data', type=Path, metavar='DIR',
                        help='with --sim: where sessions are kept (default: ~/arena)')
    parser.add_argument('--task', help='with --sim: task of the simulated scene')
    parser.add_argument('--seed', type=int, help='with --sim: variation of the scene')
    parser.add_argument('--max-steps', type=int, help='with --sim: length of a rollout')
    parser.add_argument('--robot-type', metavar='ROBOT',
                        help='with --sim: panda, fr3, an embodiment or its YAML file')


@contextmanager
def desk_of(args: argparse.Namespace) -> 'Iterator[RemoteDesk]':
    """Give a desk of the station's session node; a simulated station ends with it."""
    from arena_robot.nodes.lib.spin import stay_local
    from arena_robot.nodes.remote.desk import RemoteDesk
    from arena_robot.nodes.station.processes import SimulatedStation, own_file
    stay_local()
    station = SimulatedStation(
        args.policies, args.data, task=args.task, seed=args.seed, max_steps=args.max_steps,
        namespace=args.namespace, sim={'robot_type': own_file(args.robot_type)}
    ) if args.sim else nullcontext()
    wait_s = args.wait or (60.0 if args.sim else 5.0)
    with station, RemoteDesk(namespace=args.namespace, patience_s=wait_s, ends_then=True) as desk:
        yield desk


class StationWatch:
    """
    Interrupts the main thread, also while it reads a line, when ``desk`` has no session node left.

    Raises NotConnected in the place of the interruption that it causes.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._over = threading.Event()
        self._ended: NotConnected | None = None
        self._thread = threading.Thread(target=self._look, name='station watch', daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        if self._ended is not None and isinstance(error, KeyboardInterrupt):
            raise self._ended from None

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                self._desk.state()
            except NotConnected as error:
                self._ended = error
                ident = threading.main_thread().ident
                if ident is not None and not self._over.is_set():
                    signal.pthread_kill(ident, signal.SIGINT)
                return


def end_by_signals() -> None:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does; for the main thread."""
    for number in end_signals():
        signal.signal(number, signal.default_int_handler)
