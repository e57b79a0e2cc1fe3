"""
Programs that are killed: an arena server, a policy, a station without a robot, nodes of a station.

Each is a function that a fork server runs in a process of its own, within a tenth of a second: the
modules are imported once, in the fork server. A station tells of each entry that it has taken.
"""

import logging
import os
import resource
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from fake_station import FakeArm, FakeCamera, FakeGripper
from rollout_bags import RolloutBags, read_here

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.verdict import Verdict, scored
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.options import ServeOptions
from arena_robot.records.episode_file import EPISODE_FILE, EpisodeFile, write_episode
from arena_robot.server.app import ArenaServer
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.config import Credits, ServerConfig, ServerLimits
from arena_robot.session.arena.sealed import SealedTokens
from arena_robot.session.base import ScenePerson, SessionConfig, StationInfo
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutConfig
from arena_robot.session.protocol.conductor import Conductor
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import SessionStore

FOREVER_S = 3600.0
STEPS = 12
WORDS = 'the gripper of A closed beside the cube, attempt '


def server_config(folder: Path, port: int, url: str = '') -> ServerConfig:
    """Return a configuration for sessions that take no time and for policies that die often."""
    return ServerConfig(
        data=folder, database=url, port=port, site_port=-1, max_pace=0.0, seed=3,
        redraws_per_day=10**6, evaluator_sessions_per_day=10**6, station_sessions_per_day=10**6,
        failures_to_suspend=10**6, probe_period_s=0.3, informative=False,
        credits=Credits(weekly_base=10**6, weekly_cap=10**6), limits=ServerLimits(
            calls_per_s=1e6, burst=10**6, relay_calls_per_s=1e6, open_calls_per_s=1e6))


def fine(address: str) -> str:
    """Find no fault with a policy."""
    return ''


def begin(path: Path, most_bytes: int = 0) -> None:
    """
    Write this process's output to a file that the campaign reads.

    ``most_bytes`` above 0: no file may grow beyond that, a stand-in for a disk that is full.
    """
    if most_bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, force=True)


def policy(log: Path, port: int) -> None:
    """Serve a policy until killed."""
    begin(log)
    with GrpcPolicyServer(Echo(), ServeOptions(port=port)):
        time.sleep(FOREVER_S)


def server(log: Path, folder: Path, port: int, most_bytes: int = 0, url: str = '') -> None:
    """Run an arena server until killed; one with a ``url`` reads recordings without a process."""
    begin(log, most_bytes)
    with ArenaServer(server_config(folder, port, url), SystemClock(), fine, fine,
                     read_recordings=read_here if url else None):
        time.sleep(FOREVER_S)


class HurriedClock:
    """The system's clock, on which every sleep is skipped."""

    def __init__(self) -> None:
        self.skipped_ns = 0

    @property
    def now(self) -> int:
        """Return the time, as the made-up parts of a station ask for it."""
        return self.now_ns()

    def now_ns(self) -> int:
        """Return the time in nanoseconds since 1970."""
        return time.time_ns() + self.skipped_ns

    def steady_ns(self) -> int:
        """Return the steady time."""
        return time.monotonic_ns() + self.skipped_ns

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Skip to a time."""
        self.skipped_ns += max(0, stamp_ns - self.now_ns())

    def sleep_until_steady_ns(self, stamp_ns: int) -> None:
        """Skip to a steady time."""
        self.skipped_ns += max(0, stamp_ns - self.steady_ns())


class FileRecorder(RolloutBags):
    """Makes bags, also of a rollout that was not finished, and the episode's numbers."""

    def ready(self, folder: Path) -> bool:
        """Write what an episode lacks."""
        if not (folder / EPISODE_FILE).exists():
            steps = self.write(folder)
            write_episode(folder, EpisodeFile(folder.parent.name, folder.name, steps=steps))
        return True


class Arm(FakeArm):
    """A made-up arm that keeps nothing of the past."""

    def command(self, command: Any) -> Any:
        """Be there at once."""
        self.log.clear()
        return super().command(command)


class Gripper(FakeGripper):
    """A made-up gripper that keeps nothing of the past."""

    def command(self, command: Any) -> Any:
        """Be there at once."""
        self.log.clear()
        return super().command(command)


class Audience:
    """Listens to inferences and steps, for the recording."""

    def __init__(self, bags: RolloutBags) -> None:
        self.step, self.chunk = bags.step, bags.chunk

    def changed(self) -> None:
        """Do nothing."""

    def episode(self, job: Any, episode: Any) -> None:
        """Do nothing."""


class BusyStation:
    """A station that runs one session after another; ``told`` gets what was taken."""

    def __init__(self, told: Connection, arena: RemoteArena, folder: Path, seed: int) -> None:
        self.clock = clock = HurriedClock()
        config = SessionConfig(StationInfo('sim', 'panda'), RolloutConfig(max_steps=STEPS),
                               min_free_gb=0.0)
        parts = Parts(Arm(clock), Gripper(clock),
                      {role: FakeCamera(clock) for role in ('left', 'right', 'wrist')})
        bags = FileRecorder(folder / 'sessions')
        self.conductor = Conductor(
            RobotMotions(parts, clock, config), arena,
            SessionStore(folder / 'sessions', clock), bags,
            ScenePerson(), Audience(bags), clock, config)
        self._told, self._rng, self._number = told, Random(seed), 0
        self._finish = folder / 'finish'

    def tell(self, key: str, value: object) -> None:
        """Say that an entry was taken."""
        self._told.send((self.conductor.record.session_id, key, value))

    def turn(self) -> bool:
        """Press the next button; False once nothing is left to do."""
        conductor, record = self.conductor, self.conductor.record
        if record.state.is_final or record.state is State.IDLE:
            if self._finish.exists():
                if conductor.waiting == 0:
                    return False
                conductor.deliver()
                time.sleep(0.05)
                return True
            conductor.check()
        elif record.state in (State.PREFLIGHT, State.TASK_ENTERED):
            self._open()
        elif record.state is State.ASSIGNED:
            conductor.photograph()
        elif record.state is State.START_PHOTOGRAPHED:
            conductor.run(Slot.A)
        elif record.state in (State.SCORING_A, State.SCORING_B):
            self._score(Slot.A if record.state is State.SCORING_A else Slot.B)
        elif record.state is State.RESET:
            conductor.prepare_reset()
            conductor.confirm_reset()
            conductor.run(Slot.B)
        else:
            self._end()
        return True

    def _open(self) -> None:
        if self.conductor.record.state is State.PREFLIGHT:
            self.conductor.check()
        prompt = f'put cube {self._rng.randrange(10**9)} in the bowl'
        self.conductor.enter_task('ada', prompt)
        self.tell('prompt', prompt)

    def _score(self, slot: Slot) -> None:
        progress = self._rng.randrange(101) / 100.0
        self.conductor.score(slot, scored(slot, progress))
        self.tell(f'progress_{slot.value.lower()}', progress)

    def _end(self) -> None:
        conductor, record = self.conductor, self.conductor.record
        drafted = str(record.draft.get('explanation', ''))
        if record.state is State.PREFERENCE and not drafted:
            drafted = WORDS + str(self._rng.randrange(10**9))
            conductor.draft({'explanation': drafted})
            self.tell('explanation', drafted)
        elif record.state is State.PREFERENCE:
            conductor.judge(Verdict(preference=Preference.A, explanation=drafted))
        elif record.state is State.REVIEW:
            conductor.submit()
            self.tell('submitted', True)
        else:
            conductor.deliver()


def station(log: Path, told: Connection, target: str, tokens: tuple[str, str], folder: Path,
            seed: int, most_bytes: int = 0) -> None:
    """Run sessions until killed; end when the folder has a file ``finish`` and all is sent."""
    begin(log, most_bytes)
    arena = RemoteArena(ServerAddress(target, tokens[0], timeout_s=5.0), SystemClock(), 1e9,
                        SealedTokens(folder / 'arena'))
    busy = BusyStation(told, arena, folder, seed)
    busy.conductor.open()
    signed_in = False
    while True:
        try:
            if not signed_in:
                arena.sign_in(tokens[1])
                signed_in = True
            if not busy.turn():
                break
        except (ArenaError, OSError):
            time.sleep(0.05)
    busy.conductor.close()
    threading.Thread(target=arena.close, daemon=True).start()
    told.close()
