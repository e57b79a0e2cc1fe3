"""Processes of the demonstration: arena server, policies, accounts; station and session node."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.errors import Conflict, ServerError
from arena_robot.core.process import Process
from arena_robot.demo.plan import PoolMember, Ports
from arena_robot.demo.processes import Processes
from arena_robot.nodes.executables import MODULES
from arena_robot.nodes.simulation.governor import SessionPace
from arena_robot.nodes.station.processes import AS_A_PERSON, start_file
from arena_robot.safety.limits import robot_of
from arena_robot.server.client import Calls, ServerAddress
from arena_robot.server.proto import arena_server_pb2 as pb

HOST = '127.0.0.1'
INSTITUTION, OWNER, EVALUATOR = 'demo-lab', 'olga', 'ada'
OWNERS_INSTITUTION = 'policy-lab'
READY_S = 60.0    # until every policy has passed its check and is in the pool
# A public server's limits are too strict for ten sessions in three minutes.
# Simulated time passes faster, so the pace at the relay says nothing.
SETTINGS = {'probation_sessions': 0, 'approve_policies': 'none', 'probe_period_s': 2.0,
            'max_pace': 0.0, 'credits': {'weekly_base': 1000, 'weekly_cap': 1000},
            'limits': {'calls_per_s': 1000.0, 'burst': 1000, 'relay_calls_per_s': 500.0}}
WIDTH, HEIGHT = 320, 180
EYES = ['left']
FIND_S = 60.0    # patience of those who look for the station's nodes on a busy machine


def arena_command(*words: object) -> list[str]:
    """Return the command line of an `arena` verb."""
    return [sys.executable, '-m', 'arena_robot.cli.main', *map(str, words)]


def stations(robots: Sequence[str]) -> dict[str, str]:
    """Return the name of the station of each robot."""
    return {robot: f'sim-{k}' for k, robot in enumerate(dict.fromkeys(robots), 1)}


class DemoArena:
    """The server's process and one process per policy; accounts and tokens in ``folder``."""

    def __init__(self, folder: Path, logs: Path, ports: Ports, entries: Sequence[PoolMember],
                 seed: int, robots: Sequence[str] = ('panda',)) -> None:
        self._folder = folder
        self._logs = logs
        self._ports = ports
        self._entries = entries
        self._seed = seed
        self._stations = stations(robots)
        self._server: Process | None = None
        self._serving: list[Process] = []
        # After ten sessions some policies have not lost: exact methods cannot rank those.
        self.site = f'http://{HOST}:{ports.site}/'

    @property
    def target(self) -> str:
        """Return the server's gRPC address."""
        return f'{HOST}:{self._ports.server}'

    def station_token(self, robot: str = 'panda') -> Path:
        """Return the file that holds the token of a robot's station."""
        return self._folder / f'{self._stations[robot]}.token'

    @property
    def uploaded(self) -> Path:
        """Return the folder of the files that the server has of sessions."""
        return self._folder / 'data' / 'blobs'

    @property
    def evaluator_token(self) -> str:
        """Return the evaluator's personal token."""
        return (self._folder / f'{EVALUATOR}.token').read_text(encoding='utf-8').strip()

    def start(self, processes: Processes) -> None:
        """Start the server and all policies, without waiting for them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / 'server.yaml'
        config.write_text(yaml.safe_dump({
            **SETTINGS, 'data': str(self._folder / 'data'), 'host': HOST, 'seed': self._seed,
            'port': self._ports.server, 'site_port': self._ports.site}), encoding='utf-8')
        self._server = Process('arena server', arena_command(
            'server', '--config', config, '--token-file', self._folder / 'maintainer.token'),
            self._logs / 'server.log')
        self._serving = self._policies()
        processes.start(self._server)
        processes.start(*self._serving, needed=True)

    def _policies(self) -> list[Process]:
        processes = []
        for entry, port in zip(self._entries, self._ports.policies, strict=True):
            command = arena_command('policy', 'serve', entry.example, '--protocol',
                                    entry.protocol, '--port', port)
            if entry.options:
                command += ['--kwargs', *entry.options]
            processes.append(Process(f'policy {entry.name}', command,
                                     self._logs / f'policy_{entry.name}.log',
                                     {'OPENBLAS_NUM_THREADS': '1', 'OMP_NUM_THREADS': '1'}))
        return processes

    def register(self) -> None:
        """Wait for the server, then add new accounts, station and policies."""
        assert self._server is not None
        self._server.wait_for('arena server on')
        with self._calls('maintainer') as maintainer:
            self._account(maintainer, OWNER, 'owner', OWNERS_INSTITUTION)
            self._account(maintainer, EVALUATOR, 'evaluator', INSTITUTION)
            for robot, name in self._stations.items():
                self._token(name, partial(maintainer, 'AddStation', pb.Station(
                    name=name, institution=INSTITUTION, robot=robot_of(robot).name,
                    external_cameras=2, wrist_camera=True, stereo=True)))
        for process in self._serving:
            process.wait_for('serving ')
        with self._calls(OWNER) as owner:
            addresses = {p.name: p.address for p in owner('ListPolicies', pb.Empty()).policies}
            for entry, port in zip(self._entries, self._ports.policies, strict=True):
                address = f'{entry.protocol}://{HOST}:{port}'
                if addresses.get(entry.name) != address:
                    verb = 'UpdatePolicy' if entry.name in addresses else 'RegisterPolicy'
                    owner(verb, _policy(entry, address))

    def wait_for_pool(self, alive: Callable[[], None]) -> None:
        """Wait until every policy has passed its check; ServerError when one does not."""
        end_s = time.monotonic() + READY_S
        reasons: dict[str, str] = {}    # a policy that is checked again has none
        with self._calls(OWNER) as owner:
            while True:
                alive()
                policies = owner('ListPolicies', pb.Empty()).policies
                ready = [p.name for p in policies if p.state == 'pool' and p.healthy]
                if len(ready) == len(self._entries):
                    return
                for p in policies:
                    if p.state == 'suspended':
                        reasons[p.name] = p.reason
                        owner('ResubmitPolicy', pb.NameRequest(name=p.name))
                if time.monotonic() > end_s:
                    raise ServerError('policies did not come into the pool: ' + '; '.join(
                        f'{p.name} is {p.state}: {reasons.get(p.name, p.reason)}' for p in policies
                        if p.name not in ready))
                time.sleep(0.1)

    def _calls(self, who: str) -> '_Calls':
        token = (self._folder / f'{who}.token').read_text(encoding='utf-8').strip()
        return _Calls(ServerAddress(self.target, token, timeout_s=10.0))

    def _account(self, maintainer: Calls, name: str, role: str, institution: str) -> None:
        self._token(name, lambda: maintainer('AddAccount', pb.Account(
            name=name, institution=institution, roles=[role])))

    def _token(self, name: str, ask: Callable[[], Any]) -> None:
        """Write a new token to a file that only its owner can read, unless it is there."""
        path = self._folder / f'{name}.token'
        if path.exists():
            return
        try:
            token = ask().token
        except Conflict:
            # An earlier run was interrupted between the server's answer and this file.
            with self._calls('maintainer') as maintainer:
                token = maintainer('RotateToken', pb.HolderRequest(
                    name=name, station=name in self._stations.values())).token
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, 'w', encoding='utf-8') as file:
            file.write(token + '\n')


class _Calls(Calls):
    def __enter__(self) -> '_Calls':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _policy(entry: PoolMember, address: str) -> pb.Policy:
    return pb.Policy(name=entry.name, address=address, description=entry.about,
                     open_source=True)    # cameras are read from its server


class DemoStation:
    """The processes of a robot's station, simulated ``speed`` times as fast as a real one."""

    def __init__(self, folder: Path, logs: Path, speed: float, max_steps: int,
                 size: tuple[int, int] = (WIDTH, HEIGHT), robot: str = 'panda',
                 name: str = 'sim-1') -> None:
        self._robot, self._name = robot, name
        self._folder = folder
        self._logs = logs
        self._pace = SessionPace(speed)
        self._max_steps = max_steps
        self._size = size

    @property
    def sessions(self) -> Path:
        """Return the folder of all sessions."""
        return self._folder / 'sessions'

    def simulator(self, task: str, seed: int) -> Process:
        """Return the station's parts around one simulated world."""
        nodes = self._pace.station()
        nodes['sim_station'] |= {
            'robot_type': self._robot, 'task': task, 'seed': seed, 'eyes': EYES,
            'image_width': self._size[0],
            'image_height': self._size[1], 'start_file': start_file(data=self._folder),
            **AS_A_PERSON}
        return self._node('sim_station', nodes)

    def recorder(self) -> Process:
        """Return the recorder."""
        return self._node('recorder_node', {'recorder_node': {
            'output_dir': str(self.sessions), 'min_free_disk': 0.5, 'derive': False}})

    def session(self, arena: str, token: Path) -> Process:
        """Return the session node, as a client of the server at ``arena``."""
        return self._node('session_node', {'session_node': {
            'station': self._name, 'data_dir': str(self._folder), 'arena': arena,
            'token_file': str(token), 'scene': 'sim_station', 'eyes': EYES,
            'max_steps': self._max_steps, 'min_free_gb': 0.5, **self._pace.session()}})

    def console(self, port: int) -> Process:
        """Return the evaluator's page."""
        return Process('console', arena_command('console', '--port', port, '--wait', FIND_S),
                       self._logs / 'console.log')

    def _node(self, name: str, parameters: dict[str, dict[str, Any]]) -> Process:
        self._logs.mkdir(parents=True, exist_ok=True)
        path = self._logs / f'{name}.yaml'
        everybody = {} if name == 'sim_station' else {'use_sim_time': True}
        path.write_text(yaml.safe_dump({
            f'/**/{node}': {'ros__parameters': {**everybody, **values}}
            for node, values in parameters.items()}), encoding='utf-8')
        return Process(name, [sys.executable, '-m', MODULES[name], '--ros-args',
                              '--params-file', str(path)], self._logs / f'{name}.log')
