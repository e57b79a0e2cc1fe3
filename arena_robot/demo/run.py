"""One run of the demonstration, from starting the processes to the final output."""

import fcntl
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from arena_robot.core.errors import ConfigError, SessionError
from arena_robot.core.process import Process, end_signals
from arena_robot.demo import outcome as outcomes
from arena_robot.demo.arena import EVALUATOR, FIND_S, DemoArena, DemoStation, stations
from arena_robot.demo.audits import BackgroundAudits, audit_sessions
from arena_robot.demo.display import LiveStatus, ProgressText, Stopwatch, minutes
from arena_robot.demo.plan import (
    DemoOptions,
    Plan,
    PoolMember,
    Ports,
    grown,
    new_plan,
    pool,
    read_plan,
    write_plan,
)
from arena_robot.demo.processes import Processes, ResourceUsage
from arena_robot.demo.tournament import DemoTournament, delivered
from arena_robot.demo.videos import Videos
from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.remote.scene import SceneClient
from arena_robot.session.evaluator.desk import Button, DeskState
from arena_robot.session.protocol.states import State

log = logging.getLogger(__name__)

ATTEMPTS = 4     # at a session, before the machine counts as too slow
DOMAINS = 100    # of ROS; higher ones have ports that Linux hands out to others
GIB = 2 ** 30


class Demo:
    """One run of the demonstration, new or continued."""

    def __init__(self, options: DemoOptions) -> None:
        self._options = options
        self._folder = options.data.expanduser().absolute()
        self._logs = self._folder / 'logs'
        self._progress = ProgressText(None, options.sessions)
        self._display = self._progress.display
        self._clock = Stopwatch()
        self._played = 0
        self._stations = {robot: DemoStation(self._folder, self._logs, options.speed,
                                             options.max_steps, robot=robot, name=name)
                          for robot, name in stations(options.robots).items()}
        self._station: list[Process] = []    # the processes of the one that plays

    def run(self) -> int:
        """Run to the end; 0 when every session is complete and without problems."""
        self._options.check()
        entries = pool(self._options.pool)
        self._logs.mkdir(parents=True, exist_ok=True)
        own_domain()
        for number in end_signals():
            signal.signal(number, signal.default_int_handler)
        with ExitStack() as stack:
            stack.enter_context(_alone(self._folder))
            stack.enter_context(_log_to(self._logs / 'demo.log'))
            plan = self._plan(len(entries))
            self._say_hello(plan, entries)
            stack.enter_context(self._display)
            processes = stack.enter_context(Processes(self._folder))
            usage = stack.enter_context(ResourceUsage(
                lambda: [(p.name, p.pid) for p in tuple(processes.running)]))
            arena = self._arena(plan, entries)
            videos = stack.enter_context(
                Videos(self._folder / 'sessions', self._logs / 'videos.log'))
            audits = stack.enter_context(
                BackgroundAudits(arena.uploaded, self._logs / 'audits.log'))
            self._play(processes, plan, arena, videos, audits)
            self._progress.step('audits')
            audits.finish()
            return self._end(plan, entries, usage, arena, processes, videos)

    def _plan(self, policies: int) -> Plan:
        options = self._options
        plan = read_plan(self._folder)
        if plan is None:
            plan = new_plan(options.tasks, options.sessions, options.seed, options.pool,
                            options.robots)
        elif plan.pool != options.pool:
            raise ConfigError(f"{self._folder} was begun with the pool '{plan.pool}', not "
                              f"'{options.pool}'; take another --data")
        else:
            plan = grown(plan, options.tasks, options.sessions, options.seed, options.robots)
        plan.ports = ports(plan.ports, policies)
        write_plan(self._folder, plan)
        return plan

    def _arena(self, plan: Plan, entries: tuple[PoolMember, ...]) -> DemoArena:
        assert plan.ports is not None
        return DemoArena(self._folder / 'server', self._logs, plan.ports, entries,
                         self._options.seed, self._options.robots)

    def _say_hello(self, plan: Plan, entries: tuple[PoolMember, ...]) -> None:
        options, line = self._options, self._display.line
        self._progress.sessions = len(plan.jobs)
        stands = 'a simulated station' if len(self._stations) == 1 else (
            f"simulated stations of {' and '.join(self._stations)}")
        line(f'  {len(plan.jobs)} double-blind A/B sessions over {len(options.tasks)} tasks, '
             f'{len(entries)} policies, {stands} at {options.speed:g}× real time')
        done = len(plan.jobs) - len(plan.open)
        if done:
            line(f'  continues in {self._folder}: {done} sessions are done')
        line(f'  files: {self._folder}; logs: {self._logs}')
        line()
        self._progress.footer = (f'logs: {self._logs}', 'Ctrl-C stops everything; the same '
                                 'command continues from there')

    def _play(self, processes: Processes, plan: Plan, arena: DemoArena, videos: Videos,
              audits: BackgroundAudits) -> None:
        """Start everything, and run the sessions that are open."""
        progress, blocks = self._progress, plan.by_station
        progress.step('arena server and policies start')
        arena.start(processes)
        if blocks:
            self._simulate(processes, plan, *blocks[0])
        arena.register()
        progress.step_done(f'site: {arena.site}')
        for number, (robot, jobs) in enumerate(blocks):
            if number:
                processes.end(*self._station)
                progress.step(f'simulated station of {robot}')
                self._simulate(processes, plan, robot, jobs)
            else:
                progress.step('policies are checked by the arena')
            self._start(processes, self._stations[robot].session(
                arena.target, arena.station_token(robot)))
            if not number:
                arena.wait_for_pool(processes.require)
                progress.step('simulated station, recorder, session')
            self._tournament(processes, plan, jobs, arena, videos, audits)

    def _simulate(self, processes: Processes, plan: Plan, robot: str, jobs: list[int]) -> None:
        """Start the simulated station of a robot, with a recorder."""
        station, first = self._stations[robot], plan.jobs[jobs[0]]
        self._station = []
        self._start(processes, station.simulator(first.task, first.seed), station.recorder())

    def _start(self, processes: Processes, *of_station: Process) -> None:
        self._station += of_station
        processes.start(*of_station)

    def _tournament(self, processes: Processes, plan: Plan, jobs: list[int], arena: DemoArena,
                    videos: Videos, audits: BackgroundAudits) -> None:
        """Run the sessions of one station, whose processes are started."""
        progress, robot = self._progress, plan.jobs[jobs[0]].robot
        port = plan.ports.console if plan.ports else 0
        with SceneClient(patience_s=FIND_S) as scene, RemoteDesk(patience_s=FIND_S) as desk:
            desk.take('arena demo', take_over=True)
            desk.press(Button.SIGN_IN, arena.evaluator_token)
            if self._options.console:
                self._start(processes, self._stations[robot].console(port))
                progress.footer = (f"site: {arena.site}   evaluator's page: "
                                   f'http://127.0.0.1:{port}/', *progress.footer[-2:])
            progress.step_done()
            self._display.line()
            tournament = DemoTournament(desk, scene, EVALUATOR, processes.require, videos)
            with progress.watching(lambda: LiveStatus(desk.state(), desk.running(),
                                                      scene.last_progress)):
                self._sessions(plan, jobs, tournament, processes, audits)

    def _sessions(self, plan: Plan, jobs: list[int], tournament: DemoTournament,
                  processes: Processes, audits: BackgroundAudits) -> None:
        last = plan.current
        for index in jobs:
            self._progress.begins(index + 1, len(plan.jobs) - len(plan.open))
            earlier = plan.jobs[index].session_id
            end = delivered(self._folder / 'sessions' / earlier, processes.require) \
                if index == last and earlier else None
            if end is None:
                end = self._session(plan, index, tournament, went_before=index == last)
            plan.named(index, end.session_id, done=True)
            audits(self._folder / 'sessions' / end.session_id)
            self._played += 1
            write_plan(self._folder, plan)
            self._progress.ended(end)
            log.info('session %d: %s, %s', index + 1, end.session_id, plan.jobs[index].task)

    def _session(self, plan: Plan, index: int, tournament: DemoTournament,
                 went_before: bool) -> DeskState:
        """Run one session, or continue the one that was interrupted."""
        number = index + 1
        resumed = went_before and tournament.pick_up(plan.jobs[index])
        if went_before:
            self._progress.closed(f'session {number} continues where it was interrupted' if resumed
                               else f'session {number} was interrupted and starts again')

        def named(session_id: str) -> None:
            plan.named(index, session_id)
            write_plan(self._folder, plan)

        for _ in range(ATTEMPTS):
            if not resumed:
                plan.begin(index)
                write_plan(self._folder, plan)
            end = tournament.run(plan.jobs[index], named, fresh=not resumed)
            if end.state is State.DONE:
                return end
            log.warning('session %d was aborted: %s', number, end.notice)
            self._progress.closed(f'session {number} starts again: {end.notice}')
            resumed = False
        raise SessionError(f'session {number} was aborted {ATTEMPTS} times: this machine is too '
                           'busy; try a lower --speed')

    def _end(self, plan: Plan, entries: tuple[PoolMember, ...], usage: ResourceUsage,
             arena: DemoArena, processes: Processes, videos: Videos) -> int:
        """Rank, report, print; keep the site running with ``keep``."""
        audit_sessions([self._folder / 'sessions' / job.session_id
                        for job in plan.jobs if job.done], log.info, arena.uploaded)
        self._progress.step_done()
        self._progress.step('standings and report')
        usage.look()
        took = self._clock.seconds
        gathered = outcomes.gather(self._folder, plan, entries, videos.wrong_with)
        page = outcomes.report_page(self._folder)
        # The figures of a report are those of the run that played its sessions.
        if self._played or not page.exists():
            outcomes.report(self._folder, gathered, entries, self._facts(plan, usage, took))
        self._progress.step_done()
        self._display.close()
        outcomes.tell(self._display, gathered)
        line = self._display.line
        if videos.lossy:
            line(f'  {len(videos.lossy)} of {2 * len(gathered.records)} recordings have gaps: '
                 'this machine was busy; `arena episode check` says which')
        line(f'\n  took {minutes(took)}, at most {usage.peak_bytes / GIB:.2f} GiB of memory, '
             f'{sum(usage.cpu_s.values()):.0f} s of processor time, '
             f'{disk_mb(self._folder / "sessions") / max(len(plan.jobs), 1):.0f} MB of disk a '
             'session')
        line(f'  report    {page}')
        line(f"  sessions  {self._folder / 'sessions'}   (bags, videos, journals)")
        if self._options.keep:
            line(f'  site      {arena.site}   until Ctrl-C')
            _until_interrupted(processes)
        else:
            line(f'  site      `arena demo --keep --data {self._options.data}` shows it')
        return 0 if not gathered.problems else 1

    def _facts(self, plan: Plan, usage: ResourceUsage, took_s: float) -> list[tuple[str, str]]:
        options = self._options
        return [('Sessions', str(len(plan.jobs))), ('Tasks', str(len(options.tasks))),
                ('Simulation', f'{options.speed:g}× real time'), ('Took', minutes(took_s)),
                ('Peak memory', f'{usage.peak_bytes / GIB:.2f} GiB'),
                *([('Robots', ', '.join(options.robots))] if len(options.robots) > 1 else [])]


def _until_interrupted(processes: Processes) -> None:
    over = threading.Event()
    for number in end_signals():
        signal.signal(number, lambda *_: over.set())
    while not over.wait(0.5):
        processes.require()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder; ConfigError when another demonstration uses it."""
    with (folder / '.lock').open('w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f'another demonstration runs in {folder}; end it, or take another '
                              '--data') from error
        yield


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    """Write this process's log to a file."""
    handler = logging.FileHandler(path, encoding='utf-8')
    handler.setFormatter(logging.Formatter('%(asctime)s %(levelname)s %(name)s: %(message)s'))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        handler.close()


def disk_mb(folder: Path) -> float:
    """Return the size of all files in a folder in MB."""
    return sum(p.stat().st_size for p in folder.rglob('*') if p.is_file()) / 1e6


def ports(before: Ports | None, policies: int) -> Ports:
    """Return free ports, those of the previous run where they are still free."""
    wanted = [before.server, before.site, before.console, *before.policies] if before else []
    wanted += [0] * (3 + policies - len(wanted))
    sockets: list[socket.socket] = []
    try:
        for port in wanted:
            sockets.append(_bound(port))
        server, site, console, *policy_ports = (int(s.getsockname()[1]) for s in sockets)
    finally:
        for bound in sockets:
            bound.close()
    return Ports(server, site, console, tuple(policy_ports))


def _bound(port: int) -> socket.socket:
    try:
        return socket.create_server(('127.0.0.1', port))
    except OSError:
        return socket.create_server(('127.0.0.1', 0))


def own_domain() -> None:
    """Limit ROS to this machine, in a domain that others rarely use, unless set otherwise."""
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    os.environ.setdefault('ROS_DOMAIN_ID', str(os.getpid() % DOMAINS + 1))
    os.environ.setdefault('MUJOCO_GL', 'egl')
