"""Station files: the nodes in a parameter file, and the processes that run them."""

import logging
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import yaml

from arena_robot.core.config import read_yaml
from arena_robot.core.errors import ConfigError
from arena_robot.core.process import Process, end_all
from arena_robot.nodes.executables import MODULES

log = logging.getLogger(__name__)
STATION_NODES = ('arm_node', 'gripper_node', 'camera_node', 'sim_station')
ELSEWHERE = ('recorder_node', 'session_node', 'replay_node', 'ranking_node')
CAMERA_SUFFIX = '_camera'
INTERRUPT_S, TERMINATE_S = 2.0, 0.5


@dataclass(frozen=True)
class NodeProcess:
    """One process: ``executable`` is a module of this room, ``name`` the node's."""

    executable: str
    name: str
    arguments: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the command line."""
        rename = [] if self.executable == 'sim_station' else ['-r', f'__node:={self.name}']
        return [sys.executable, '-m', MODULES[self.executable], '--ros-args',
                *rename, *self.arguments]


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


def nodes_in(path: str | Path, parts_needed: bool = True) -> list[tuple[str, str]]:
    """
    Return (executable, node name) of every part that a parameter file describes.

    A ``sim_station`` includes all parts. The file may also have sections of other nodes, such as
    recorder_node. Raises ConfigError for a bad file or name, and when ``parts_needed`` but no
    part is there.
    """
    found = []
    for key, section in read_yaml(path).items():
        if not isinstance(section, dict) or 'ros__parameters' not in section:
            raise ConfigError(f"{path}: '{key}' must hold 'ros__parameters:'")
        name = str(key).rsplit('/', 1)[-1]
        if name in STATION_NODES:
            found.append((name, name))
        elif name.endswith(CAMERA_SUFFIX):
            found.append(('camera_node', name))
        elif name not in ('**', '*', *ELSEWHERE):
            raise ConfigError(f"{path}: '{key}' names no node; known are "
                              f"{', '.join(STATION_NODES)}, and cameras as <name>{CAMERA_SUFFIX}")
    if any(executable == 'sim_station' for executable, _ in found):
        return [('sim_station', 'sim_station')]
    if not found and parts_needed:
        raise ConfigError(f'{path} describes no node; keys are like /**/arm_node:')
    return found


def write_parameters(path: Path, values: Mapping[str, Mapping[str, object]]) -> Path:
    """Write parameters by node name to a file for ``--params-file``, and return its path."""
    content = {f'/**/{node}': {'ros__parameters': dict(parameters)}
               for node, parameters in values.items()}
    path.write_text(yaml.safe_dump(content), encoding='utf-8')
    return path


def overrides_file(values: Mapping[str, Mapping[str, object]]) -> Path:
    """
    Write parameters by node name to a new temporary file, and return its path.

    On the command line itself, ``-p node:name:=value`` does not reach a node in a namespace.
    """
    with tempfile.NamedTemporaryFile(prefix='arena_station_', suffix='.yaml',
                                     delete=False) as file:
        return write_parameters(Path(file.name), values)


@dataclass
class Supervisor:
    """
    Runs processes, restarts a process that exits, and ends all together.

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
                    if self.respawn and code not in (0, 2):
                        log.error('%s ended with %s; starting it again in %g s', node.name, code,
                                  self.respawn_delay_s)
                        due[node] = time.monotonic() + self.respawn_delay_s
                    elif code:
                        log.error('%s ended with %s', node.name, code)
                for node in [n for n, at_s in due.items() if time.monotonic() >= at_s]:
                    del due[node]
                    running[node] = self._start(node)
        finally:
            end_all(list(running.values()), self.interrupt_s, TERMINATE_S)
        return 0 if self.stopped.is_set() else worst

    @staticmethod
    def _start(node: Startable) -> Process:
        process = Process(node.name, node.command())
        process.start()
        return process
