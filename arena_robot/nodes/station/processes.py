"""Processes of a station: parts, session node and recorder, and parameter files for them."""

import logging
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from arena_robot.core.config import read_yaml
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ROLES
from arena_robot.core.process import Process, end_all
from arena_robot.drivers.part import Opened
from arena_robot.nodes import executables
from arena_robot.nodes.station.files import CONFIGURATION_ERROR, override_keys, part_names
from arena_robot.robots.cameras import STYLE_OF, CameraKind
from arena_robot.safety.embodiments import cameras_of
from arena_robot.safety.limits import robot_of

if TYPE_CHECKING:    # a station without the simulator imports this
    from arena_robot.nodes.simulation.governor import SessionPace

log = logging.getLogger(__name__)
INTERRUPT_S, TERMINATE_S = 4.0, 0.5    # a session node stores a rollout first; others take 1 s
SESSION = 'session_node'
EXAMPLE_POOL = {'policies': [
    {'name': 'random-walk', 'address': 'example:random_walk'},
    {'name': 'frozen', 'address': 'example:frozen'},
]}
DATA = Path('~/arena')
SMALL_DISK_GB = 1.0    # simulated pictures are small
# How exactly a person restores a scene.
AS_A_PERSON = {'restore_mm': 3.0, 'restore_deg': 2.0}


@dataclass(frozen=True)
class NodeProcess:
    """One process: ``executable`` is a module of this room, ``name`` the node's or nodes'."""

    executable: str
    name: str
    arguments: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the command line."""
        several = self.executable in ('sim_station', executables.PARTS)
        rename = [] if several else ['-r', f'__node:={self.name}']
        return [sys.executable, '-m', executables.__name__, self.executable,
                *part_names(self.executable, self.name), '--ros-args', *rename, *self.arguments]


class Startable(Protocol):
    """A process of a station: its name in messages, and its command line."""

    @property
    def name(self) -> str:
        """Return the name in messages."""

    def command(self) -> list[str]:
        """Return the command line."""


def namespace_words(namespace: str) -> tuple[str, ...]:
    """Return the ROS arguments that put a node into a namespace."""
    return ('-r', f"__ns:=/{namespace.strip('/')}") if namespace else ()


def write_parameters(path: Path, values: Mapping[str, Mapping[str, object]],
                     namespace: str = '', over: Sequence[Path] = ()) -> Path:
    """
    Write parameters by node name to a file for ``--params-file``, and return its path.

    They override what the files ``over`` say about the nodes in ``namespace``.
    """
    content = {key: {'ros__parameters': dict(parameters)}
               for node, parameters in values.items()
               for key in (override_keys(node, namespace, over) if over else [f'/**/{node}'])}
    path.write_text(yaml.safe_dump(content), encoding='utf-8')
    return path


def overrides_file(values: Mapping[str, Mapping[str, object]], namespace: str = '',
                   over: Sequence[Path] = ()) -> Path:
    """
    Write parameters by node name to a new temporary file, and return its path.

    On the command line itself, ``-p node:name:=value`` does not reach a node in a namespace.
    """
    with tempfile.NamedTemporaryFile(prefix='arena_station_', suffix='.yaml',
                                     delete=False) as file:
        return write_parameters(Path(file.name), values, namespace, over)


@dataclass
class Supervisor:
    """
    Runs processes, restarts a process that exits, and ends all: the session node, then the others.

    A process that ends with a configuration error ends all of them.

    ``interrupt_s`` is how long they may take to end: a recorder finishes its bag.
    """

    processes: Sequence[Startable]
    respawn: bool = True
    respawn_delay_s: float = 2.0
    interrupt_s: float = INTERRUPT_S
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> int:
        """Run until :attr:`stopped` is set or all have ended; return the first bad exit code."""
        running = {node: self._start(node) for node in self.processes}
        due: dict[Startable, float] = {}
        worst = 0
        try:
            while not self.stopped.wait(0.05) and (running or due):
                for node, process in list(running.items()):
                    code = process.code
                    if code is None:
                        continue
                    del running[node]
                    worst = worst or code
                    if code == CONFIGURATION_ERROR:
                        log.error('%s ended with a configuration error: the station ends',
                                  node.name)
                        return code
                    if self.respawn and code:
                        log.error('%s ended with %s; starting it again in %g s', node.name, code,
                                  self.respawn_delay_s)
                        due[node] = time.monotonic() + self.respawn_delay_s
                    elif code:
                        log.error('%s ended with %s', node.name, code)
                for node in [n for n, at_s in due.items() if time.monotonic() >= at_s]:
                    del due[node]
                    running[node] = self._start(node)
        finally:
            # A rollout ends at the arm and is recorded while both still answer.
            for name in (SESSION, ''):
                end_all([process for node, process in running.items()
                         if name in ('', node.name)], self.interrupt_s, TERMINATE_S)
        return 0 if self.stopped.is_set() else worst

    @staticmethod
    def _start(node: Startable) -> Process:
        process = Process(node.name, node.command())
        process.start()
        return process


@dataclass(frozen=True)
class SessionOptions:
    """
    What the command line says about sessions; None where it says nothing.

    ``policies`` is the pool file of a station without a server, ``data`` the folder of results,
    ``pace`` that of a simulation which is faster or slower than real time, ``robot_type`` its
    robot.
    """

    policies: Path | None = None
    data: Path | None = None
    max_steps: int | None = None
    record: bool = True
    pace: 'SessionPace | None' = None
    robot_type: str | None = None


def session_processes(folder: Path, files: Sequence[Path], options: SessionOptions,
                      words: Sequence[str] = (), simulated: bool = False,
                      namespace: str = '') -> list[NodeProcess]:
    """
    Return recorder and session node, after writing their parameter files into ``folder``.

    ``files`` are the parameter files of the station, whose nodes are in ``namespace``; ``words``
    are further ROS arguments. Without
    other settings a simulated station has two example policies. The audit node is started where a
    file has a section for it. Raises ConfigError when a real
    station's files say nothing about the session node.
    """
    given = {name: section(files, name) for name in ('session_node', 'recorder_node')}
    if not simulated and not given['session_node']:
        raise ConfigError(f"{', '.join(map(str, files))} has no section '/**/session_node': copy "
                          'it from config/session.yaml, or give that file with --session-config')
    data = _data(files, options.data)
    cameras = _own_cameras(str(options.robot_type or section(files, 'sim_station').get(
        'robot_type') or '')) if simulated else {}
    defaults: dict[str, dict[str, object]] = {
        'session_node': {**cameras}, 'recorder_node': {'output_dir': str(data / 'sessions')}}
    if simulated:
        defaults['session_node'] |= {'arena_file': str(example_pool(folder)),
                                     'scene': 'sim_station', 'min_free_gb': SMALL_DISK_GB}
        defaults['recorder_node'] |= {'min_free_disk': SMALL_DISK_GB}
    overrides = _overrides(files, options)
    made = {name: _arguments(folder, name, defaults[name], files, overrides[name], namespace)
            for name in defaults}
    names = ['recorder_node', 'session_node'] if options.record else ['session_node']
    if any(_names(file, 'audit_node') for file in files):
        names.append('audit_node')
        made['audit_node'] = _arguments(
            folder, 'audit_node', {**cameras, 'data_dir': str(data)}, files,
            overrides['audit_node'], namespace)
    return [NodeProcess(name, name, (*made[name], *words)) for name in names]


def _own_cameras(robot_type: str) -> dict[str, object]:
    """Return what the session node is told of an embodiment's cameras; nothing of DROID's."""
    if not robot_type:
        return {}
    robot_of(robot_type)    # an unknown one is refused by its name
    kinds = cameras_of(robot_type)
    if kinds == dict.fromkeys(ROLES, CameraKind.STEREO):
        return {}
    return {'cameras': [f'{role}_camera' for role in kinds], 'roles': list(kinds),
            'topic_styles': [STYLE_OF[kind] for kind in kinds.values()]}


def start_file(files: Sequence[Path] = (), data: Path | None = None) -> str:
    """Return the file of the saved start: as a parameter file says, or beside the results."""
    given = section(files, 'sim_station').get('start_file')
    return str(given or _data(files, data) / 'simulation' / 'start.json')


def _data(files: Sequence[Path], data: Path | None) -> Path:
    return data or Path(str(section(files, 'session_node').get('data_dir', DATA)))


def _names(file: Path, name: str) -> bool:
    """Tell whether a parameter file has a section for a node, also an empty one."""
    return any(str(key).rsplit('/', 1)[-1] == name for key in read_yaml(file))


def _overrides(files: Sequence[Path], options: SessionOptions) -> dict[str, dict[str, object]]:
    """Return the parameters by node that the command line overrides."""
    session = {'arena_file': _text(options.policies), 'data_dir': _text(options.data),
               'max_steps': options.max_steps,
               'arena': 'local' if options.policies else None,
               'recorder': None if options.record else ''}
    recorder = {'output_dir': _text(options.data and options.data / 'sessions')}
    paced = options.pace.session() if options.pace else {}
    clock = ({'use_sim_time': True}
             if options.pace or section(files, 'sim_station').get('publish_clock') else {})
    return {'session_node': {**_given(session), **paced, **clock},
            'recorder_node': {**_given(recorder), **clock},
            'audit_node': {**_given({'data_dir': _text(options.data)}), **clock}}


def _arguments(folder: Path, name: str, defaults: Mapping[str, object], files: Sequence[Path],
               overrides: Mapping[str, object], namespace: str) -> list[str]:
    """Return the parameter files of a node: defaults, the station's, the command line's."""
    before = write_parameters(folder / f'{name}_defaults.yaml', {name: defaults})
    after = write_parameters(folder / f'{name}_options.yaml', {name: overrides}, namespace,
                             files)
    order = [before, *files, after]
    return [word for path in order for word in ('--params-file', str(path))]


def section(files: Sequence[Path], name: str) -> dict[str, Any]:
    """Return what parameter files say about a node; a later file overrides an earlier one."""
    parameters: dict[str, Any] = {}
    for path in files:
        for key, values in read_yaml(path).items():
            if str(key).rsplit('/', 1)[-1] == name and isinstance(values, Mapping):
                parameters |= values.get('ros__parameters') or {}
    return parameters


def example_pool(folder: Path) -> Path:
    """Write the pool of two example policies into ``folder`` and return its file."""
    path = folder / 'policies.yaml'
    path.write_text(yaml.safe_dump(EXAMPLE_POOL), encoding='utf-8')
    return path


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def own_file(robot_type: str | None) -> str | None:
    """Return a robot_type whose file every process finds, wherever it runs."""
    path = Path(robot_type or '')
    return str(path.absolute()) if path.is_file() else robot_type


class SimulatedStation(Opened):
    """
    Runs ``sim_station``, ``recorder_node`` and ``session_node`` while it is open.

    ``policies`` is a pool file (None: two example policies), ``data`` where sessions are kept
    (None: ~/arena). Between A and B the scene is restored with errors of 3 mm and 2 degrees, as by
    a person.
    """

    def __init__(self, policies: Path | None = None, data: Path | None = None, *,
                 task: str | None = None, seed: int | None = None, max_steps: int | None = None,
                 namespace: str = '', record: bool = True,
                 sim: Mapping[str, object] | None = None) -> None:
        self._policies = policies
        self._data = data or DATA.expanduser()
        self._namespace = namespace
        self._record = record
        self._sim = {**AS_A_PERSON, 'task': task, 'seed': seed,
                     'start_file': start_file(data=self._data), **(sim or {})}
        self._max_steps, self._robot_type = max_steps, str(self._sim.get('robot_type') or '')
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._supervisor: Supervisor | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Start the processes; they take some seconds to answer."""
        self._folder = tempfile.TemporaryDirectory(prefix='arena-station-')
        self._supervisor = Supervisor(self.processes(Path(self._folder.name)))
        self._thread = threading.Thread(target=self._supervisor.run, name='station', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the processes; can be called twice."""
        if self._supervisor is not None and self._thread is not None:
            self._supervisor.stopped.set()
            self._thread.join(timeout=15.0)
            self._supervisor = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def processes(self, folder: Path) -> list[NodeProcess]:
        """Return the processes, after writing the parameter files into ``folder``."""
        words = ('--log-level', 'warn', *namespace_words(self._namespace))
        options = SessionOptions(self._policies, self._data, self._max_steps, self._record,
                                 robot_type=self._robot_type)
        given = {key: value for key, value in self._sim.items() if value is not None}
        sim = write_parameters(folder / 'sim_station.yaml', {'sim_station': given})
        station = NodeProcess('sim_station', 'sim_station', ('--params-file', str(sim), *words))
        return [station, *session_processes(folder, (), options, words, simulated=True,
                                            namespace=self._namespace)]
